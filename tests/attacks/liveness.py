# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove every check once, list the attack tests that die: ``python -m tests.attacks.liveness [--first] [check ...]``.

With ``--first`` a check is done when one test has died.  Ends with status 1 if a check can go without a test noticing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.attacks.checks import CHECKS
from tests.attacks.conftest import REMOVED

HERE = Path(__file__).parent


def deaths(check: str, first: bool) -> list[str]:
    """Tests that fail with this check removed."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", *(["-x"] if first else []), str(HERE)]
    done = subprocess.run(
        command, env={**os.environ, REMOVED: check}, cwd=HERE.parents[1], capture_output=True, text=True, check=False
    )
    return re.findall(r"^FAILED tests/attacks/(\S+)", done.stdout, flags=re.M)


def main() -> int:
    unnoticed = 0
    names = [name for name in sys.argv[1:] if name != "--first"]
    for check in names or CHECKS:
        dead = deaths(check, first="--first" in sys.argv[1:])
        unnoticed += not dead
        print(f"{check}: {len(dead) or 'NO'} tests die", flush=True)
        for name in dead:
            print(f"    {name}")
    return min(unnoticed, 1)


if __name__ == "__main__":
    sys.exit(main())
