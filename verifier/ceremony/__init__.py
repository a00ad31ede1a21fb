# SPDX-License-Identifier: GPL-3.0-or-later
"""Ceremonies: keys that several parties make, in a folder that goes from hand to hand.  SPEC A.9.12 to A.9.16."""
