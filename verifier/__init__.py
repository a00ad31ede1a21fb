# SPDX-License-Identifier: GPL-3.0-or-later
"""The auditor: checks everything public and issues a verdict (phase D)."""

if __name__ != "ragseal.verifier":  # a second copy of every class, errors among them
    raise ImportError("import ragseal.verifier, not verifier")
