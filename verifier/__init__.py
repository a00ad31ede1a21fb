# SPDX-License-Identifier: GPL-3.0-or-later
"""The auditor: checks everything public and issues a verdict (phase D)."""
