# SPDX-License-Identifier: GPL-3.0-or-later
"""One audit window end to end, as three real processes on loopback."""

if __name__ != "ragseal.demo":  # a second copy of every class, errors among them
    raise ImportError("import ragseal.demo, not demo")
