# SPDX-License-Identifier: GPL-3.0-or-later
"""SafeRAG's four attacks against retrievers, filters and generators, and against this project's retrieval."""
