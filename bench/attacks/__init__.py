# SPDX-License-Identifier: GPL-3.0-or-later
"""Membership attacks by coalitions, as a library: what accounts see (channels), what they compute (adversaries), and
how well that separates two worlds (roc).  Everything is drawn from the project's own noise tables and retrieval."""
