# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider as one object: keys, windows, coins and the parts that answer and prove."""
