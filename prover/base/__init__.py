# SPDX-License-Identifier: GPL-3.0-or-later
"""What every part of the provider may use: randomness, limits, database addresses, outcomes of a check."""
