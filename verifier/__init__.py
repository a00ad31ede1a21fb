# SPDX-License-Identifier: GPL-3.0-or-later
"""The auditor: checks everything public and issues a verdict (phase D)."""

import os

if __name__ != "ragseal.verifier":  # a second copy of every class, errors among them
    raise ImportError("import ragseal.verifier, not verifier")

# gRPC's core reads this when it is first imported.  Otherwise strangers write as much to the log as they please: it has
# a line of its own for each compressed message and each broken handshake, and none of them passes the gate.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
