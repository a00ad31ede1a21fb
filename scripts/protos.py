# SPDX-License-Identifier: GPL-3.0-or-later
"""Regenerate proto/gen; with --check fail when the committed code is not what the .proto files give."""

from __future__ import annotations

import filecmp
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
GENERATED = ROOT / "proto" / "gen"


def generate(target: Path) -> None:
    sources = sorted(str(p) for p in (ROOT / "proto" / "ragseal").rglob("*.proto"))
    target.mkdir(parents=True, exist_ok=True)
    arguments = [f"-I{ROOT / 'proto'}", f"--python_out={target}", f"--pyi_out={target}", f"--grpc_python_out={target}"]
    if protoc.main(["protoc", *arguments, *sources]):
        sys.exit("protoc failed")


def main() -> None:
    if "--check" not in sys.argv:
        generate(GENERATED)
        return
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        generate(fresh)
        names = sorted(str(p.relative_to(fresh)) for p in fresh.rglob("*.py*"))
        _, differ, missing = filecmp.cmpfiles(fresh, GENERATED, names, shallow=False)
        if differ or missing:
            sys.exit(f"generated code is not current, run `make protos`: {', '.join(differ + missing)}")


if __name__ == "__main__":
    main()
