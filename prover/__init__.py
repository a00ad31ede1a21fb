# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider: serves, logs and proves (phases A and B)."""

if __name__ != "ragseal.prover":  # a second copy of every class, errors among them
    raise ImportError("import ragseal.prover, not prover")
