# SPDX-License-Identifier: GPL-3.0-or-later
"""Before a window: what privacy costs in answers, and which policy to choose.  Touches no provider's state."""
