# SPDX-License-Identifier: GPL-3.0-or-later
"""The four words that an audit may end in.  They stand in files and on other people's screens: never change them."""

from __future__ import annotations

PASS, SAMPLED_PASS, FAIL, NO_VERDICT = "PASS", "SAMPLED-PASS", "FAIL", "NO VERDICT"
