# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes on by itself while a provider serves: windows, ticks, proofs, retirement, numbers."""
