# SPDX-License-Identifier: GPL-3.0-or-later
"""Queries that test the protocol: asked by accounts of an observer, stated under its key, counted again by an audit."""
