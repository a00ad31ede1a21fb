# SPDX-License-Identifier: GPL-3.0-or-later
"""Which factor of a row is A and which is B.  The order means nothing to the statement, and much to who proves it.

A proof takes a point of G2 for every wire that some row has in B, three times as dear as one of G1, and dearer the
larger the wire's value is.  The compiler puts the inverse of every look-up into B, a full-size number, and what is
looked up, a sum of small ones, into A.  Here a row whose B is one wire and whose A is several has them exchanged, which
also takes an S-box's fourth power out of B.  Everybody compiles, so everybody has the same rows.
"""

from __future__ import annotations

import struct
from pathlib import Path

from ragseal.circuits.container import write_container
from ragseal.circuits.r1cs import TERM_BYTES, read_r1cs

#: Part of what a build is named by.
RULE = "factors: one wire in A, several in B"


def orient(path: Path) -> int:
    """Exchange the factors of rows in a .r1cs file, in place.  Returns the number of rows exchanged.

    Raises:
        ConfigurationError: the file cannot be read.
        ProofError: it is malformed.
    """
    system = read_r1cs(path)
    exchanged = 0
    body = bytearray()
    for a, b, c in system.forms():
        if len(b) == TERM_BYTES < len(a):
            a, b = b, a
            exchanged += 1
        for form in (a, b, c):
            body += struct.pack("<I", len(form) // TERM_BYTES)
            body += form
    parts = {**system.file.sections, 2: memoryview(body)}
    write_container(path, b"r1cs", 1, parts)
    return exchanged
