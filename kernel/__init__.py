# SPDX-License-Identifier: GPL-3.0-or-later
"""What prover and verifier must compute identically, bit for bit.  Pure: no I/O, clock or randomness."""
