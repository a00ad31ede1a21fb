# SPDX-License-Identifier: GPL-3.0-or-later
"""The drill: copied under load, killed, put back, answered from, audited.  SPEC G.6.2."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ragseal.kernel.errors import LedgerError
from tests.simulator.copies import put_back
from tests.simulator.keys import ROOT
from tests.simulator.live import Live

pytestmark = pytest.mark.slow


def test_a_provider_that_dies_after_its_copy_goes_on_from_it_to_a_pass(tmp_path: Path) -> None:
    child = [sys.executable, "-m", "tests.crash.dying", "backup", str(tmp_path)]
    done = subprocess.run(child, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    place, lost = tmp_path / "provider", tmp_path / "lost"
    place.rename(lost)
    with pytest.raises(LedgerError, match="later entries were signed"):
        put_back(tmp_path / "early", place, remains=lost)
    told = put_back(tmp_path / "late", place, remains=lost)
    assert told.values["unproven"] == 4
    made = Live(tmp_path)
    try:
        with made.client(name="bob") as client:
            assert client.ask("report about topic 5").record.seq == 4
        with made.client(name="alice") as client:
            assert client.ask("report about topic 6").record.signed.request.ctr == 3
        made.end_window()
        verdict = made.audited()
        assert verdict.verdict == "PASS", verdict.line()
    finally:
        made.end()
