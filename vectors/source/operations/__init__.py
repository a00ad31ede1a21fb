# SPDX-License-Identifier: GPL-3.0-or-later
"""What a vector's ``operation`` is: input to output by this implementation, or an AuditError.

vectors/README.md has the table of them.  Everything here only reads JSON and calls the product; one module per group of
clauses, as the specification has them.
"""

from __future__ import annotations

from collections.abc import Callable

from vectors.source.operations import (
    attestation,
    commitment,
    estimate,
    mechanism,
    messages,
    points,
    shards,
    verification,
)
from vectors.source.operations.messages import DIGESTS
from vectors.source.reading import PRIVATE, Json

__all__ = ["DIGESTS", "OPERATIONS", "PRIVATE"]

OPERATIONS: dict[str, Callable[[Json], Json]] = {
    **messages.OPERATIONS,
    **points.OPERATIONS,
    **mechanism.OPERATIONS,
    **commitment.OPERATIONS,
    **attestation.OPERATIONS,
    **shards.OPERATIONS,
    **estimate.OPERATIONS,
    **verification.OPERATIONS,
}
