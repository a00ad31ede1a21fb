# SPDX-License-Identifier: GPL-3.0-or-later
"""Where documents already lie: databases, vector stores and files, read through one protocol.

Each engine is one file and is imported when it is named; its driver is an extra of its own.  What a source says is
checked row by row before anything of it is written (:mod:`ragseal.prover.sources.reading`).
"""
