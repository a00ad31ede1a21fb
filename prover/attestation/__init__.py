# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase B at the provider: requests admitted, answered, recorded and proven.  SPEC B."""
