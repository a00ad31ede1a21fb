# SPDX-License-Identifier: GPL-3.0-or-later
"""The circom circuits, their classes and their build."""
