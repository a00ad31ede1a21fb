# SPDX-License-Identifier: GPL-3.0-or-later
"""What a window and a period cost in privacy: from noise table and policy to epsilon, by independent routes.

SPEC D.11.
"""

if __name__ != "ragseal.accounting":  # a second copy of every class, errors among them
    raise ImportError("import ragseal.accounting, not accounting")
