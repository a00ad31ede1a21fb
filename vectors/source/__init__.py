# SPDX-License-Identifier: GPL-3.0-or-later
"""What vectors/generate.py makes the vectors from: values, one module of nouns each, and the operations they replay."""
