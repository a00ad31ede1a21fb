# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider: serves, logs and proves (phases A and B)."""
