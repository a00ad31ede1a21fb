# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-verifier plant`` and ``probe``: an attack that a mechanism with committed noise must withstand."""
