# SPDX-License-Identifier: GPL-3.0-or-later
"""A window whose indices are three shards, on the wire: answers, proofs, the audit, and who cheats with a shard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ragseal.circuits.circuit import load_classes
from ragseal.kernel.errors import AttestationError
from tests.simulator import provider as scene
from tests.simulator.live import Live, live

SHARDED = scene.Kind(load_classes()["sharded-tiny-two"], 3)


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(
        tmp_path_factory.mktemp("live"), kind=SHARDED, gain=20, n_max=6,
        texts=lambda tenant: scene.documents(tenant, 300),
    ) as made:
        yield made


def test_it(window: Live) -> None:
    with window.client() as client:
        for n in range(3):
            found = client.ask(f"acme report number {n}")
            print([t.slot for t in found.opened])
    window.end_window()
    verdict = window.audited()
    print(verdict)
    assert 0
