# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's corpus and queries: documentation of Python's standard library, for two tenants.

Docstrings are read from the library's source files as text (``ast``); no module is imported or run.  The same Python
gives the same corpus; another version gives nearly the same one.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.commitment.corpora import Document
from ragseal.runtime.edges.filesystem import why

TENANTS = ("systems", "data")

#: Top-level modules about processes, networks and the machine belong to tenant "systems"; all others to "data".
SYSTEMS = frozenset({
    "asyncio", "concurrent", "ctypes", "email", "fcntl", "ftplib", "getpass", "http", "imaplib", "importlib",
    "ipaddress", "logging", "mailbox", "multiprocessing", "os", "pathlib", "platform", "poplib", "pty", "queue",
    "sched", "selectors", "shutil", "signal", "site", "smtplib", "socket", "socketserver", "ssl", "subprocess",
    "sysconfig", "tempfile", "threading", "urllib", "venv", "webbrowser", "wsgiref", "xmlrpc", "zipimport",
})  # fmt: skip

#: Left out: test suites, development tools, code that distributions ship apart or that later versions dropped.
EXCLUDED = frozenset({
    "aifc", "antigravity", "asynchat", "asyncore", "cgi", "cgitb", "chunk", "crypt", "distutils", "encodings",
    "idlelib", "imghdr", "imp", "lib2to3", "mailcap", "msilib", "nntplib", "pipes", "pydoc_data", "smtpd", "sndhdr",
    "sunau", "telnetlib", "test", "this", "tkinter", "turtle", "turtledemo", "uu", "xdrlib",
})  # fmt: skip

SHORTEST, LONGEST = 80, 1200  #: characters of a docstring
MOST = 1000  #: documents of a tenant; more are thinned evenly
LEAST = 500  #: documents of a tenant below which the installation is taken to be incomplete

#: Two accounts that share what they learn: their queries have the same intents in other words.
COLLUDING = ("ana", "ben")


class DemoQuery(NamedTuple):
    """One query of the demo."""

    account: str
    tenant: str
    text: str


_QUERIES: dict[tuple[str, str], tuple[str, ...]] = {
    ("ana", "systems"): (
        "How do I run a coroutine from another thread and get its result?",
        "Rotate a log file when it reaches a maximum size",
        "How can I limit the number of tasks that access a resource at the same time in asyncio?",
        "Run a command in a subprocess and capture its output",
        "How do I check whether an IP address belongs to a private network?",
        "Send an email message through an SMTP server with TLS",
    ),
    ("ben", "systems"): (
        "submit a coroutine to an event loop from a different thread and wait for the result",
        "roll over the log file once it reaches a maximum size",
        "asyncio: limit how many tasks can access a resource concurrently",
        "execute a command as a subprocess and collect the output",
        "test if an IP address is in a private network",
        "sending mail messages via SMTP server using TLS",
    ),
    ("chloe", "systems"): (
        "Copy a whole directory tree, with a function that decides which files to ignore",
        "How do I create a temporary directory that is removed afterwards?",
        "Share a lock between several processes",
        "Parse a URL into scheme, host, path and query",
        "Follow redirects in an HTTP request",
        "Wait until all threads have reached the same point",
    ),
    ("deniz", "data"): (
        "How do I extract all members of a tar archive safely?",
        "Compute the median of grouped continuous data",
        "Find the longest matching block of two sequences",
        "Read an INI configuration file with default values",
        "Format a paragraph so that no line is longer than a given width",
        "Register a custom codec error handler",
    ),
    ("emil", "data"): (
        "Serialize a Python object to a JSON formatted string",
        "Difference between two dates in days",
        "Draw a random sample without replacement from a population",
        "How do I define a command line option with a default value?",
        "Cache the results of a function so that it is not computed again",
        "Walk the syntax tree of Python source code",
    ),
}


def demo_queries() -> list[DemoQuery]:
    """The demo's 30 queries of five accounts, interleaved as if the accounts asked in turn."""
    rounds = max(len(texts) for texts in _QUERIES.values())
    return [
        DemoQuery(account, tenant, texts[turn])
        for turn in range(rounds)
        for (account, tenant), texts in _QUERIES.items()
        if turn < len(texts)
    ]


def demo_accounts() -> dict[str, str]:
    """The demo's accounts and the tenant of each."""
    return dict(_QUERIES.keys())


def demo_documents(stdlib: Path | None = None) -> dict[str, list[Document]]:
    """Docstrings by tenant, sorted by identifier such as ``json.loads``; at most MOST a tenant.

    Args:
        stdlib: folder of the standard library's sources; None means the running Python's own.

    Raises:
        ConfigurationError: the sources are missing, incomplete or damaged.
    """
    root = Path(sysconfig.get_path("stdlib")) if stdlib is None else stdlib
    if not root.is_dir():
        raise ConfigurationError(f"{root} is not a folder: the demo reads the standard library's sources; {_WAY_OUT}")
    found: dict[str, list[Document]] = {tenant: [] for tenant in TENANTS}
    names: set[str] = set()
    texts: set[str] = set()
    for path, module in modules(root):
        tenant = TENANTS[0] if module.partition(".")[0] in SYSTEMS else TENANTS[1]
        for name, kind, text in _docstrings(path, module):
            # a property and its setter share a name, an inherited docstring is often copied: the first one stays
            folded = " ".join(text.lower().split())
            if not SHORTEST <= len(text) <= LONGEST or name in names or folded in texts:
                continue
            names.add(name)
            texts.add(folded)
            found[tenant].append(Document(name, f"{kind} {name}\n{text}"))
    for tenant, documents in found.items():
        if len(documents) < LEAST:
            raise ConfigurationError(
                f"only {len(documents)} docstrings for tenant {tenant!r} under {root}, {LEAST} are needed; {_WAY_OUT}"
            )
    return {tenant: _thin(documents) for tenant, documents in found.items()}


def write_corpus(folder: Path = Path("var/demo/corpus"), stdlib: Path | None = None) -> dict[str, Path]:
    """Write ``<folder>/<tenant>.jsonl`` for every tenant, for ``jsonl:`` corpora; returns the files by tenant.

    Each file appears complete or not at all.

    Raises:
        ConfigurationError: as :func:`demo_documents`, or the folder cannot be written.
    """
    out: dict[str, Path] = {}
    for tenant, documents in demo_documents(stdlib).items():
        lines = "".join(json.dumps({"id": d.id, "text": d.text}, ensure_ascii=False) + "\n" for d in documents)
        out[tenant] = folder / f"{tenant}.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=f".{tenant}-", dir=folder)
            try:
                with open(handle, "w", encoding="utf-8", newline="\n") as file:
                    file.write(lines)
                os.replace(temporary, out[tenant])
            except OSError:
                Path(temporary).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise ConfigurationError(f"cannot write the demo's corpus to {folder}: {why(error, folder)}") from None
    return out


_WAY_OUT = "install them (Debian: libpython3-stdlib), or give a corpus of your own, such as CORPUS=beir:PATH"


def modules(root: Path) -> Iterator[tuple[Path, str]]:
    """Public modules below ``root`` with their dotted names, in the order of the names."""
    found: list[tuple[str, Path]] = []
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        # third-party packages may live below the same folder, so only names that the language lists are taken
        if not parts or parts[0] not in sys.stdlib_module_names or parts[0] in EXCLUDED:
            continue
        if any(part.startswith("_") or part in ("test", "tests") or not part.isidentifier() for part in parts):
            continue
        found.append((".".join(parts), path))
    for name, path in sorted(found):
        yield path, name


def _docstrings(path: Path, module: str) -> Iterator[tuple[str, str, str]]:
    """(dotted name, kind, docstring) of a module and of the public classes and functions in it, in source order."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that later versions will refuse
            tree = ast.parse(path.read_bytes(), filename=str(path))
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"cannot read the docstrings of {path}: {error}; {_WAY_OUT}") from None

    def walk(
        node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, name: str, kind: str
    ) -> Iterator[tuple[str, str, str]]:
        text = ast.get_docstring(node)
        if text:
            yield name, kind, text
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return
        for child in node.body:
            if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
                yield from walk(child, f"{name}.{child.name}", "class")
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not child.name.startswith("_"):
                yield from walk(child, f"{name}.{child.name}", "method" if kind == "class" else "function")

    yield from walk(tree, module, "module")


def _thin(documents: list[Document]) -> list[Document]:
    """At most MOST documents, chosen by a hash of their names: an even choice that a new module hardly changes."""
    kept = sorted(documents, key=lambda d: hashlib.sha256(d.id.encode("utf-8")).digest())[:MOST]
    return sorted(kept, key=lambda d: d.id)
