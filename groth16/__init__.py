# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys, proofs and curve arithmetic behind one small interface, by the native module or the slow fallbacks."""
