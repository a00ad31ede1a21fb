# SPDX-License-Identifier: GPL-3.0-or-later
"""One audit window end to end, as three real processes on loopback."""
