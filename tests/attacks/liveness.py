# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove every check once, list the attack tests that die.

``python -m tests.attacks.liveness [--first] [--all] [check ...]``: with ``--first`` a check is done when one test has
died; only the files that name the check are run, with ``--all`` every file.  Ends with status 1 if a check can go
without a test noticing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.attacks import checks
from tests.attacks.checks import CHECKS
from tests.attacks.conftest import REMOVED

HERE = Path(__file__).parent


def naming(check: str) -> list[str]:
    """The test files that speak of a check, by the name that it has in checks.py."""
    names = [name for name, value in vars(checks).items() if value is CHECKS[check]]
    pattern = re.compile(rf"\b({'|'.join(names)})\b")
    return [str(path) for path in sorted(HERE.glob("test_*.py")) if pattern.search(path.read_text())]


def deaths(check: str, first: bool, everywhere: bool) -> list[str]:
    """Tests that fail with this check removed."""
    files = [str(HERE)] if everywhere else naming(check)
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", *(["-x"] if first else []), *files]
    done = subprocess.run(
        command, env={**os.environ, REMOVED: check}, cwd=HERE.parents[1], capture_output=True, text=True, check=False
    )
    return re.findall(r"^FAILED tests/attacks/(\S+)", done.stdout, flags=re.M)


def main() -> int:
    unnoticed = 0
    names = [name for name in sys.argv[1:] if not name.startswith("--")]
    for check in names or CHECKS:
        dead = deaths(check, "--first" in sys.argv[1:], "--all" in sys.argv[1:])
        unnoticed += not dead
        print(f"{check}: {len(dead) or 'NO'} tests die", flush=True)
        for name in dead:
            print(f"    {name}")
    return min(unnoticed, 1)


if __name__ == "__main__":
    sys.exit(main())
