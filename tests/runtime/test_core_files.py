# SPDX-License-Identifier: GPL-3.0-or-later
"""No role's process leaves a core file: memory holds keys, seeds and queries."""

from __future__ import annotations

import subprocess
import sys

import pytest

ROLES = {
    "ragseal.prover.__main__": ["status", "--state", "nowhere"],
    "ragseal.verifier.__main__": ["keys", "--state", "nowhere"],
    "ragseal.client.__main__": ["register-line", "--state", "nowhere", "--tenant", "t"],
    "ragseal.ledger.__main__": ["keygen", "--name", "has space"],
}
RUN = """
import importlib, resource, sys
soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
try:
    importlib.import_module(sys.argv[1]).main(sys.argv[2:])
except SystemExit as ended:
    assert ended.code != 2, "this command does not exist any more"
print(hard, resource.getrlimit(resource.RLIMIT_CORE)[0])
"""


@pytest.mark.parametrize("role", ROLES)
def test_core_files_are_switched_off(role: str) -> None:
    done = subprocess.run([sys.executable, "-c", RUN, role, *ROLES[role]], capture_output=True, text=True, check=True)
    hard, soft = map(int, done.stdout.split()[-2:])
    if hard == 0:
        pytest.skip("this system allows no core files at all")
    assert soft == 0
