# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verdict says, as data, as a page and in words."""
