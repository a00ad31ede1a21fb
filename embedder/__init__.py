# SPDX-License-Identifier: GPL-3.0-or-later
"""Text to int8 vectors, identically for provider and client."""
