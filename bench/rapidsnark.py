# SPDX-License-Identifier: GPL-3.0-or-later
"""Our prover and rapidsnark's, both with the key in memory, turn and turn about on the same key and witness.

rapidsnark comes as a program, which reads the key from its file for each proof, and as a library, which an application
keeps in its process as ours is kept.  Only the library is a fair peer, so this takes librapidsnark.so, and checks its
proofs with our verifier.  ``bench.performance`` times the program where one is installed.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

import ragseal_native as native
from bench.experiment import RESULTS, ROOT, machine, save
from bench.records import Bench, make
from ragseal.circuits.build import build
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.groth16.keys import KeyView, make_keys
from ragseal.groth16.snarkjs import proof_bytes
from ragseal.kernel.noise_class import with_noise

#: Bytes for the proof and for the public inputs, each as JSON.
PROOF, PUBLIC = 1 << 12, 1 << 25
MESSAGE = 1 << 10


class Library:
    """librapidsnark.so: ``groth16_prover`` of its prover.h."""

    def __init__(self, path: Path) -> None:
        """Raises click.ClickException: not a library that has ``groth16_prover``."""
        try:
            self._prove = ctypes.CDLL(str(path)).groth16_prover
        except (OSError, AttributeError) as error:
            raise click.ClickException(f"{path} is not rapidsnark's library: {error}") from None
        self._proof, self._public, self._said = map(ctypes.create_string_buffer, (PROOF, PUBLIC, MESSAGE))

    def prove(self, zkey: mmap.mmap, witness: bytes) -> bytes:
        """proof.json of a .zkey, mapped for writing, and a .wtns.  Raises click.ClickException: the library refuses."""
        proof, public = ctypes.c_ulong(PROOF), ctypes.c_ulong(PUBLIC)
        key = (ctypes.c_char * len(zkey)).from_buffer(zkey)
        failed = self._prove(
            key, ctypes.c_ulong(len(zkey)), witness, ctypes.c_ulong(len(witness)),
            self._proof, ctypes.byref(proof), self._public, ctypes.byref(public), self._said, ctypes.c_ulong(MESSAGE),
        )  # fmt: skip
        if failed:
            raise click.ClickException(f"rapidsnark ends with {failed}: {self._said.value.decode(errors='replace')}")
        return self._proof.value


def cost(action: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds by the clock, seconds of all cores, and what came back."""
    used, began = time.process_time(), time.perf_counter()
    value = action()
    return time.perf_counter() - began, time.process_time() - used, value


def compare(name: str, library: Library, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Both provers on one class.

    Returns:
        rows of the circuit, each sample in seconds, medians, and the ratios of ours to rapidsnark's.

    Raises:
        ProofError: either prover made a proof that does not verify.
    """
    cls = with_noise(load_classes()[name])
    say(f"compiling class {name} (once)")
    built = build(cls, ROOT / "var" / "build")
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        say("making keys")
        paths = make_keys(built.r1cs, cls, class_digest(cls), at / "k")
        ours = native.ProvingKey.load(str(paths.zkey))
        key = KeyView(cls, ours.verifying_key())
        one = make(Bench(cls, key, np.random.default_rng(1)), secrets.randbelow(1 << 20))
        witness = native.R1cs.load(str(built.r1cs)).solve(one.assignment.packed())
        witness.to_wtns(str(at / "w.wtns"))
        wtns = (at / "w.wtns").read_bytes()
        with paths.zkey.open("rb") as file:  # copy on write: ctypes passes no buffer that cannot be written
            zkey = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)

        def rapidsnark() -> bytes:
            return proof_bytes(json.loads(library.prove(zkey, wtns)))

        def own() -> bytes:
            return bytes(ours.prove(witness))

        samples: dict[str, list[float]] = {"own": [], "own_cpu": [], "rapidsnark": [], "rapidsnark_cpu": []}
        for turn in range(rounds + 1):
            for prover, action in (("own", own), ("rapidsnark", rapidsnark)):
                say(f"round {turn} of {rounds}: {prover}")
                clock, cpu, proof = cost(action)
                key.verify(one.assignment.clear, one.c_w, one.committed + one.c_v, proof)
                if turn:  # the first one of each finds cold caches
                    samples[prover].append(round(clock, 4))
                    samples[f"{prover}_cpu"].append(round(cpu, 4))
    median = {prover: statistics.median(found) for prover, found in samples.items()}
    return {
        "constraints": built.constraints,
        "samples_s": samples,
        "median_s": median,
        "ratio": round(median["own"] / median["rapidsnark"], 3),
        "ratio_cpu": round(median["own_cpu"] / median["rapidsnark_cpu"], 3),
    }


@click.command()
@click.option("--library", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="librapidsnark.so, as rapidsnark's own build makes it.")  # fmt: skip
@click.option("--class", "names", multiple=True, default=["noise-small-two-50", "noise-small-gaussian-50"],
              show_default=True, help="A circuit class; may be repeated.")  # fmt: skip
@click.option("--rounds", default=9, show_default=True, type=click.IntRange(1), help="Proofs of each prover a class.")
@click.option("--out", type=click.Path(path_type=Path), default=None, help="Where to write; default bench/results.")
def main(library: Path, names: tuple[str, ...], rounds: int, out: Path | None) -> None:
    """Measure and write bench/results/rapidsnark.json."""
    unknown = [name for name in names if name not in load_classes()]
    if unknown:
        raise click.ClickException(f"there is no class {unknown[0]!r}: {', '.join(load_classes())}")

    prover = Library(library)

    def say(text: str) -> None:
        click.echo(text, err=True)

    found = {name: compare(name, prover, rounds, say) for name in names}
    folder = out or RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    save(folder / "rapidsnark.json", {"machine": machine(), "classes": found})
    for name, one in found.items():
        click.echo(f"{name}: {one['ratio']} of rapidsnark's time, {one['ratio_cpu']} of its processor time")


if __name__ == "__main__":
    main()
