# SPDX-License-Identifier: GPL-3.0-or-later
"""Proofs by other processes: on this machine or on others.  SPEC B.12."""
