# SPDX-License-Identifier: GPL-3.0-or-later
"""What every process needs of its machine: gRPC, TLS, files that are whole or absent, keys, terminals, limits."""

if __name__ != "ragseal.runtime":  # a second copy of every class, errors among them
    raise ImportError("import ragseal.runtime, not runtime")
