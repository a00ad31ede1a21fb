# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers in words from an index, through keywords that many documents' answers share."""
