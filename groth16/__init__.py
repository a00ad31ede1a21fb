# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys, proofs and curve arithmetic behind one small interface, by the native module or the slow fallbacks."""

if __name__ != "ragseal.groth16":  # a second copy of every class, errors among them
    raise ImportError("import ragseal.groth16, not groth16")
