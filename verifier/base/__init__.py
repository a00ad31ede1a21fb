# SPDX-License-Identifier: GPL-3.0-or-later
"""What every part of the auditor may use: files, keys as people name them, versions of programs."""
