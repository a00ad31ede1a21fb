# SPDX-License-Identifier: GPL-3.0-or-later
"""One audit from the folder to the written report, and the auditor's part in a window's beacon."""
