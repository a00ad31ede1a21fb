# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the protocol's constants (kernel/params.py) for the circuits and for Rust; --check fails where they differ."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ragseal.kernel import params  # noqa: E402

CIRCOM = ROOT / "circuits" / "lib" / "constants.circom"
RUST = ROOT / "native" / "src" / "constants.rs"
LICENCE = "// SPDX-License-Identifier: GPL-3.0-or-later"
BY = "Generated from kernel/params.py by scripts/constants.py"

#: Nothing calls them any more.  Without them every circuit would have another digest, and policies name digests.
UNCALLED = {"UNIFORM_BITS": 128, "PLACE_CANONICAL_BITS": 72}
#: name -> type in Rust, "" where only the circuits need it; and what it is
NAMES = {
    "MODULUS_BITS": ("usize", "bits of the scalar field's order"),
    "UNIFORM_BITS": ("", ""),
    "COARSE_CANONICAL_BITS": ("usize", "least width of a coarse element's canonical top"),
    "PLACE_CANONICAL_BITS": ("", ""),
    "ELEMENTS_PER_BLOCK": ("usize", "outputs of one width-17 permutation that are used"),
    "PACKED_BITS": ("", "bits of slot ids in one field element of the commitment to T"),
    "TAG_SEED": ("", "Poseidon domain tags"),
    "TAG_KEY": ("", ""),
    "TAG_COARSE": ("u64", "Poseidon domain tags, added at 2^32 to a counter"),
    "TAG_FINE": ("u64", ""),
    "TAG_PLACES": ("", ""),
    "TAG_COIN_SEED": ("", ""),
    "TAG_COIN_KEY": ("", ""),
    "TAG_COINS": ("", ""),
    "COIN_BITS": ("", "bits of a slot's coin"),
}


def value(name: str) -> int:
    found: int = UNCALLED[name] if name in UNCALLED else getattr(params, name)
    return found


def circom() -> str:
    """Functions: circom has no constants."""
    lines = [LICENCE, f"// {BY}.", "pragma circom 2.1.6;", ""]
    lines += [f"function {name}() {{ return {value(name)}; }}" for name in NAMES]
    return "\n".join(lines) + "\n"


def rust() -> str:
    lines = [LICENCE, f"//! {BY}.", ""]
    for name, (kind, what) in NAMES.items():
        if kind:
            lines += [f"/// {what[0].upper()}{what[1:]}."] if what else []
            lines.append(f"pub const {name}: {kind} = {value(name)};")
    return "\n".join(lines) + "\n"


def main() -> None:
    stale = []
    for path, text in ((CIRCOM, circom()), (RUST, rust())):
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(str(path.relative_to(ROOT)))
    if stale:
        sys.exit(f"not what kernel/params.py says, run python scripts/constants.py: {', '.join(stale)}")


if __name__ == "__main__":
    main()
