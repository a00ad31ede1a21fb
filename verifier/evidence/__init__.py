# SPDX-License-Identifier: GPL-3.0-or-later
"""What is evidence and whose word it is; a provider that is asked for it over the network."""
