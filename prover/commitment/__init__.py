# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase A at the provider: what it commits to before a window opens.  SPEC A."""
