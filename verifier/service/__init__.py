# SPDX-License-Identifier: GPL-3.0-or-later
"""The auditor's service: keys for providers, audits for those who may ask for them."""
