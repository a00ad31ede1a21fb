# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provider keeps: its folder, its entries in the ledger, the windows as the ledger tells them."""
