# SPDX-License-Identifier: GPL-3.0-or-later
"""The second reader itself: it tells a log that contradicts itself from one that does not, in one process."""

from __future__ import annotations

import pytest

from ragseal.kernel.attestation import Record
from ragseal.verifier.outcome import Ending, Verdict
from tests.simulator import World
from tests.web.published import NODE
from tests.web.second_reader import SecondReader

pytestmark = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")


def failed(message: str) -> Verdict:
    verdict = Verdict(origin="log")
    verdict.failure = Ending(6, message, {})
    return verdict


def test_what_the_browsers_checks_let_pass_is_named() -> None:
    reader, lie = SecondReader(), World.honest()
    lie.raw[lie.at(Record)] = lie.messages[lie.at(Record)].encode() + b"\x00"
    reader.note(lie, 6, failed("a lie"), {})
    reader.note(World.honest(), 6, failed("something that is not so"), {})
    reader.note(World.honest(), 6, failed("the registry is another"), {})  # nothing public shows it
    reader.note(World.honest(), 9, failed("links"), {})
    assert len(reader.orders) == 2
    [unseen] = reader.unseen()
    assert unseen.startswith("6: something that is not so | ")
    assert SecondReader().unseen() == []
