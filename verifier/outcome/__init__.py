# SPDX-License-Identifier: GPL-3.0-or-later
"""What an audit ends in: its words, its verdict with everything the report shows, its checklist."""
