# SPDX-License-Identifier: GPL-3.0-or-later
"""The auditor's folder: its keys, what it remembers of logs, what it found of each window."""
