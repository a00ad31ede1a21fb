# SPDX-License-Identifier: GPL-3.0-or-later
"""The native module where it is installed, the kernel's Python where it is not: one interface, the same bits."""

if __name__ != "ragseal.backends":  # a second copy of every class, errors among them
    raise ImportError("import ragseal.backends, not backends")
