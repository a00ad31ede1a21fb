# SPDX-License-Identifier: GPL-3.0-or-later
"""Checked retrieval for programs that speak HTTP or MCP: a server on the account's own machine.

Every check is made here, with the account's own key, before anything is handed on.  Who can reach the gateway spends
the account's budget and reads its answers, so each request shows the gateway's key, and a browser's are refused.
"""
