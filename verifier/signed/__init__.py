# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict that can be handed on: an in-toto Statement in a DSSE envelope, signed with the auditor's identity key."""
