# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase C at the provider: links, and the blocks that prove them.  SPEC C."""
