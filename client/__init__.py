# SPDX-License-Identifier: GPL-3.0-or-later
"""What an account runs: signs requests, checks answers, keeps receipts."""
