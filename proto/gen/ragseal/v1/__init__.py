# SPDX-License-Identifier: GPL-3.0-or-later
"""Generated protobuf code (scripts/protos.py).  Envelopes only: hashed and signed bytes are the kernel's."""
