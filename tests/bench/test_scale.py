# SPDX-License-Identifier: GPL-3.0-or-later
"""The proofs behind ``bench.scale`` are of what today's circuits and checks take."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.shardproofs import apart, proofs
from ragseal.circuits.build import default_cache


@pytest.mark.slow
def test_proofs_of_shards_hold(tmp_path: Path) -> None:
    found = proofs("noise-tiny-two", default_cache(), tmp_path / "keys", shards=2)
    assert found["class"] == "noise-tiny-two"
    assert found["bytes_a_shard"] == 2 * 64 + 256  # C_h, C_1 and a Groth16 proof
    assert found["bytes_a_record"] == 64
    assert found["worker_peak_mib"] > 0
    assert found["verify_ms_a_shard"] > 0


def test_what_fails_apart_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        apart(divmod, 1, 0)
