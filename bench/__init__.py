# SPDX-License-Identifier: GPL-3.0-or-later
"""One script per claim; each writes JSON with the machine it ran on to bench/results/."""
