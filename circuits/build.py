# SPDX-License-Identifier: GPL-3.0-or-later
"""From a circuit class to its compiled R1CS: generated main component, compiler, cache.

A build lies in ``<cache>/<class>-<content digest>/``: <noun>.r1cs (its factors ordered for provers, its commitments
checked to have one opening each), <noun>.wasm (witness generator), <noun>.sym (wire names; the noun is "attestation",
"noise", "estimate" or "thinning"), main.circom (the generated main component and constant tables) and class.json.  The
digest covers every source, parameter and the compiler's version, so a build is never stale.  Builds appear whole or not
at all, and two processes never build the same class at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from ragseal.circuits.circuit import HERE, Circuit, Shape, circuit_of, hash_parts, library_integrity, read_source
from ragseal.circuits.independence import check_independent
from ragseal.circuits.orientation import RULE, orient
from ragseal.circuits.packages import node_modules, user_cache, way_out
from ragseal.circuits.r1cs import read_r1cs
from ragseal.circuits.shipped import shipped, unpacked
from ragseal.kernel.errors import ConfigurationError, UnavailableError
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.edges.locks import wait_lock

#: Rows are written as products only, so the simplification of signal equalities and constants is enough.
FLAGS = ("--r1cs", "--wasm", "--sym", "--O1")
CONSTANTS = "poseidon_constants.circom"
#: SHA-256 of the only file that is included from elsewhere: what is compiled must be what the class digest speaks of.
CONSTANTS_DIGEST = "94c9e4b5ea891ab4d1ba626f1d719f8c661014d9b628f6096c803f75f39e3eee"
BUILD_VARIABLE = "RAGSEAL_BUILD"  #: folder of compiled circuits


def default_cache() -> Path:
    """Where compiled circuits lie: RAGSEAL_BUILD, else "circuits" in RAGSEAL_CACHE, else in the user's cache folder.

    Whatever folder a program runs in, a circuit is compiled once.
    """
    own, shared = os.environ.get(BUILD_VARIABLE), os.environ.get("RAGSEAL_CACHE")
    if own:
        return Path(own)
    if shared:
        return Path(shared) / "circuits"
    return user_cache() / "circuits"


DEFAULT_CACHE = default_cache()

Progress = Callable[[str], None]
C = TypeVar("C", bound=Shape)


@dataclass(frozen=True, slots=True)
class BuiltCircuit(Generic[C]):
    """A compiled class.  ``constraints`` and ``public`` are read from the R1CS's own header."""

    cls: C
    noun: str
    folder: Path
    constraints: int
    public: int

    @property
    def r1cs(self) -> Path:
        return self.folder / f"{self.noun}.r1cs"

    @property
    def wasm(self) -> Path:
        """The witness generator; not of a circuit that came compiled with the package."""
        return self.folder / f"{self.noun}.wasm"

    @property
    def sym(self) -> Path:
        return self.folder / f"{self.noun}.sym"


@dataclass(frozen=True, slots=True)
class Compiler:
    """How circom is called here."""

    command: tuple[str, ...]
    version: str


def find_compiler() -> Compiler:
    """``circom`` on the PATH, else the npm package (:func:`ragseal.circuits.packages.node_modules`).

    Raises:
        UnavailableError: neither is there; says what to install.
    """
    native = shutil.which("circom")
    if native:
        try:
            done = subprocess.run([native, "--version"], capture_output=True, text=True, timeout=120, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise UnavailableError(f"the circuit compiler does not run ({error}): {way_out(HERE)}") from None
        return Compiler((native,), done.stdout.strip())
    node = shutil.which("node")
    if not node:
        raise UnavailableError("compiling circuits needs Node.js 18 or newer, or circom: put one on the PATH")
    package = node_modules(HERE) / "circom2"
    try:  # read, not run: each program asks whether its circuits are built, and Node starts slowly
        version = json.loads((package / "package.json").read_text(encoding="utf-8"))["version"]
    except FileNotFoundError:
        raise UnavailableError(f"the circuit compiler is not installed: {way_out(HERE)}") from None
    except OSError as error:
        raise UnavailableError(f"cannot read the circuit compiler in {package}: {why(error, package)}") from None
    except (ValueError, KeyError):
        raise UnavailableError(f"{package / 'package.json'} is damaged: {way_out(HERE)}") from None
    return Compiler((node, str(package / "cli.js")), f"circom2 npm package {version}")


def _constants() -> Path:
    path = node_modules(HERE) / "circomlib" / "circuits" / CONSTANTS
    if not path.exists():
        raise UnavailableError(f"circomlib is not installed: {way_out(HERE)}")
    if hashlib.sha256(read_source(path)).hexdigest() != CONSTANTS_DIGEST:
        raise ConfigurationError(f"{CONSTANTS} is not circomlib's: {way_out(HERE)}")
    return path


def compile_main(main: str, folder: Path, compiler: Compiler, files: list[Path], noun: str) -> None:
    """Compile a main component that includes ``files`` into ``folder``: ``noun``.{r1cs,wasm,sym} and main.circom.

    circom2 runs in a sandbox that sees its working folder only, so all sources are copied there first.

    Raises:
        ConfigurationError: the compiler refuses; carries the end of its output.
    """
    copied = []
    for path in files:
        copied.append(folder / path.name)
        shutil.copyfile(path, copied[-1])
    (folder / "main.circom").write_text(main, encoding="utf-8")
    done = subprocess.run([*compiler.command, "main.circom", *FLAGS], cwd=folder, capture_output=True, text=True)
    if done.returncode or not (folder / "main.r1cs").exists():
        tail = (done.stdout + done.stderr).strip()[-1500:]
        raise ConfigurationError(f"the circuit does not compile with {compiler.version}: {tail}")
    for path in copied:
        path.unlink()
    (folder / "main.r1cs").rename(folder / f"{noun}.r1cs")
    (folder / "main.sym").rename(folder / f"{noun}.sym")
    if (folder / "main_js").exists():
        (folder / "main_js" / "main.wasm").rename(folder / f"{noun}.wasm")
        shutil.rmtree(folder / "main_js")


def header(r1cs: Path) -> tuple[int, int]:
    """(constraints, public signals) of an R1CS file.

    Raises:
        ConfigurationError: no R1CS over BN254's scalar field.
    """
    with r1cs.open("rb") as file:
        start = file.read(12)
        if start[:4] != b"r1cs":
            raise ConfigurationError(f"{r1cs.name} is no R1CS file; remove its build folder")
        for _ in range(int.from_bytes(start[8:12], "little")):
            kind, size = int.from_bytes(file.read(4), "little"), int.from_bytes(file.read(8), "little")
            if kind != 1:
                file.seek(size, os.SEEK_CUR)
                continue
            data = file.read(size)
            outputs, public = int.from_bytes(data[40:44], "little"), int.from_bytes(data[44:48], "little")
            return int.from_bytes(data[60:64], "little"), outputs + public
    raise ConfigurationError(f"{r1cs.name} has no header; remove its build folder")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        wait_lock(file.fileno(), path)
        yield


def cached(
    circuit: Circuit, label: str, cache_dir: Path, progress: Progress | None = None, complete: bool = False
) -> Path:
    """Folder of a compiled circuit: found in the cache, unpacked or built and moved there in one step.

    What was compiled once serves without its compiler: a build's name is the digest of all that it was made of.  What
    comes with the package is compiled already.

    Args:
        complete: with a witness generator, which snarkjs needs and no circuit of the package has.
    """
    ready = None if complete else _shipped(circuit, label, cache_dir)
    if ready is not None:
        return ready
    try:
        compiler = find_compiler()
    except UnavailableError:
        kept = _compiled_before(circuit, label, cache_dir)
        if kept is None:
            raise
        return kept
    digest = _content_digest(circuit, compiler.version)
    folder = cache_dir / f"{label}-{digest}"
    if (folder / "class.json").exists():
        return folder
    with _placing(folder) as work:
        if work is None:
            return folder
        if progress:
            progress(f"compiling circuit {label} ({compiler.version})")
        began = time.monotonic()
        files = [*circuit.sources, *([_constants()] if circuit.library else [])]
        compile_main(circuit.main, work, compiler, files, circuit.noun)
        orient(work / f"{circuit.noun}.r1cs")
        check_independent(read_r1cs(work / f"{circuit.noun}.r1cs"), circuit.kept, circuit.relations)
        seconds = round(time.monotonic() - began, 1)
        about = {**circuit.about, "compiler": compiler.version, "flags": list(FLAGS), "seconds": seconds}
        (work / "class.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    if progress:
        progress(f"compiled circuit {label} in {seconds} s")
    return folder


def _shipped(circuit: Circuit, label: str, cache_dir: Path) -> Path | None:
    """The folder of a circuit that comes with the package, unpacked; None: it does not, or its sources changed."""
    said = shipped(label)
    if not said or said["content"] != (digest := _content_digest(circuit, said["compiler"])):
        return None
    folder = cache_dir / f"{label}-{digest}-r1cs"
    if (folder / "class.json").exists():
        return folder
    data, about = unpacked(label, said["sha256"]), {**circuit.about, "flags": list(FLAGS), **said}
    with _placing(folder) as work:
        if work is not None:
            (work / f"{circuit.noun}.r1cs").write_bytes(data)
            (work / "class.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return folder


@contextmanager
def _placing(folder: Path) -> Iterator[Path | None]:
    """Where a build is made; at the end it is ``folder``, in the cache.  None: another process was faster.

    Raises:
        ConfigurationError: the cache cannot be written.
    """
    cache_dir = folder.parent
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot write the build folder {cache_dir}: {why(error, cache_dir)}") from None
    with _locked(cache_dir / f".{folder.name}.lock"):
        if (folder / "class.json").exists():
            yield None
            return
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=cache_dir) as scratch:
            work = Path(scratch) / "build"
            work.mkdir()
            yield work
            if folder.exists():
                shutil.rmtree(folder)  # no class.json in it: not one of ours
            work.rename(folder)


def _content_digest(circuit: Circuit, compiler: str) -> str:
    """16 hexadecimal digits over all that a build by a version of the compiler is made of."""
    texts = (circuit.main, compiler, " ".join(FLAGS), RULE, library_integrity())
    parts = [text.encode() for text in texts]
    for path in circuit.sources:
        parts += [path.name.encode(), read_source(path)]
    return hash_parts(parts).hexdigest()[:16]


def _compiled_before(circuit: Circuit, label: str, cache_dir: Path) -> Path | None:
    """A build of exactly this circuit by the compiler that its class.json names; None: there is none."""
    for about in cache_dir.glob(f"{label}-*/class.json"):
        try:
            compiler = json.loads(about.read_text(encoding="utf-8"))["compiler"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(compiler, str) and about.parent.name == f"{label}-{_content_digest(circuit, compiler)}":
            return about.parent
    return None


def build(
    cls: C, cache_dir: Path = DEFAULT_CACHE, progress: Progress | None = None, complete: bool = False
) -> BuiltCircuit[C]:
    """Compile a class, or find it in the cache.

    5 s for a class of 2^14 rows, 15 s of 2^17, 20 s for "estimate-112", 70 s of 2^18, on an idle machine.

    Args:
        cache_dir: holds one folder per build.
        progress: called with one line at the start and the end of a compilation.
        complete: as :func:`cached`.

    Raises:
        ConfigurationError: no compiler, no npm packages, folder not writable; each with the way out.
    """
    r1cs = compiled_circuit(circuit_of(cls), cache_dir, progress, complete)
    constraints, public = header(r1cs)
    return BuiltCircuit(cls, circuit_of(cls).noun, r1cs.parent, constraints, public)


def compiled(cls: Shape, cache_dir: Path = DEFAULT_CACHE, progress: Progress | None = None) -> Path:
    """The R1CS of any kind of class, as :func:`build` has it."""
    return compiled_circuit(circuit_of(cls), cache_dir, progress)


def compiled_circuit(
    circuit: Circuit, cache_dir: Path = DEFAULT_CACHE, progress: Progress | None = None, complete: bool = False
) -> Path:
    """The same of a circuit as it is described.  Raises as :func:`build`."""
    name = circuit.cls.name
    r1cs = cached(circuit, name, cache_dir, progress, complete) / f"{circuit.noun}.r1cs"
    _, public = header(r1cs)
    if public != circuit.public:
        raise ConfigurationError(f"circuit {name} has {public} public signals, its layout {circuit.public}")
    return r1cs
