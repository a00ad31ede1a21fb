# SPDX-License-Identifier: GPL-3.0-or-later
"""The native module where it is installed, the kernel's Python where it is not: one interface, the same bits."""
