# SPDX-License-Identifier: GPL-3.0-or-later
"""What an audit of these tests refuses is read a second time, as a visitor's browser does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.verifier.attacks import READERS
from tests.web.second_reader import reading


@pytest.fixture(scope="session", autouse=True)
def second_reader() -> Iterator[None]:
    """Ends in an error where the auditor refused something public that the browser's checks let pass."""
    with reading(READERS):
        yield
