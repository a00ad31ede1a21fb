# SPDX-License-Identifier: GPL-3.0-or-later
"""What prover and verifier must compute identically, bit for bit.  Pure: no I/O, clock or randomness."""

if __name__ != "ragseal.kernel":  # a second copy of every class, errors among them
    raise ImportError("import ragseal.kernel, not kernel")
