# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept, held against what was promised: checks of a folder, and its restoration from a copy."""
