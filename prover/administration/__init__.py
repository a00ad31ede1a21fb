# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator does to a provider: under its lock, or through its own process while it serves."""
