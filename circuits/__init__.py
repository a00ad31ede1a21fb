# SPDX-License-Identifier: GPL-3.0-or-later
"""The circom circuits, their classes and their build."""

if __name__ != "ragseal.circuits":  # a second copy of every class, errors among them
    raise ImportError("import ragseal.circuits, not circuits")
