# SPDX-License-Identifier: GPL-3.0-or-later
"""The checklist of an audit, a file for each step and its mathematics.  SPEC D; the order is in verification.py."""
