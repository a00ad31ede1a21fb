# SPDX-License-Identifier: GPL-3.0-or-later
"""All probes at once: what stands between a program and its machine, before it is started or when it does not work."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ragseal.kernel.errors import AuditError
from ragseal.runtime.edges import folder as folders
from ragseal.runtime.edges.address import Address
from ragseal.runtime.edges.cause import Cause, Finding
from ragseal.runtime.edges.clock import clock
from ragseal.runtime.edges.disk import disk
from ragseal.runtime.edges.listening import listening_cause, trial
from ragseal.runtime.edges.pem import expiry
from ragseal.runtime.edges.proxy import proxies
from ragseal.runtime.edges.reaching import look_at
from ragseal.runtime.limits import SPARE_DESCRIPTORS
from ragseal.runtime.tls import BY_DEFAULT, LOOPBACK_ONLY, ClientTls, ServerTls

SOON = 14  #: days before a certificate's end from which that is wrong
LEAST_DESCRIPTORS = 1024


@dataclass(frozen=True, slots=True)
class Checkup:
    """What is to be looked at."""

    folder: Path
    listen: tuple[str, ...] = ()
    own: ServerTls = LOOPBACK_ONLY
    peers: tuple[str, ...] = ()
    tls: ClientTls = BY_DEFAULT
    peer_option: str = "--provider"  #: by which a peer is named, for ways out
    serves: bool = True  #: whether the program listens at all


async def examine(what: Checkup, tell: Callable[[str], None] = lambda now: None) -> list[Finding]:
    """Every probe, in the order of a start: folder, disk, clock, this process, listeners, TLS files, peers.

    Args:
        tell: told what is being looked at.
    """
    found = [*folders.folder(what.folder), disk(what.folder), clock(what.folder), _descriptors(), proxies()]
    if what.serves:
        found += _own_files(what.own)
        found += [_listener(text, what) for text in what.listen] or [
            Finding.unchecked("listen", "no address was given", "give --listen HOST:PORT")
        ]
    found += _client_files(what.tls)
    for peer in what.peers:
        tell(f"looking at {peer}")
        found.append(await _peer(peer, what.tls))
    if not what.peers:
        found.append(Finding.unchecked("peer", "no address was given", f"give {what.peer_option} HOST:PORT"))
    return found


def _descriptors() -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    many = "any number of" if hard == resource.RLIM_INFINITY else str(hard)
    said = f"a program may open {many} files and connections"
    with contextlib.suppress(OSError):
        said += f", and this one holds {len(os.listdir('/proc/self/fd'))}"
    if hard != resource.RLIM_INFINITY and hard < LEAST_DESCRIPTORS + SPARE_DESCRIPTORS:
        way = f"allow at least {LEAST_DESCRIPTORS + SPARE_DESCRIPTORS} (`ulimit -Hn`, LimitNOFILE= of a unit)"
        return Finding.wrong("descriptors", Cause(said, way))
    return Finding.ok("descriptors", said)


def _listener(text: str, what: Checkup) -> Finding:
    probe = f"listen {text}"
    try:
        address = Address.parse(text, listening=True)
    except AuditError as error:
        return Finding.wrong(probe, Cause(str(error)))
    if not address.loopback and what.own.certificate is None and not what.own.plain:
        said = "it is of other machines, and no TLS files were given"
        return Finding.wrong(probe, Cause(said, "give --tls-cert and --tls-key, a loopback address, or --listen-plain"))
    trouble = trial(address)
    if trouble is None:
        return Finding.ok(probe, "address and port are free")
    cause = listening_cause(address, trouble)
    user = folders.used_by(what.folder)
    if user and "taken" in cause.said:
        said = f"{cause.said}; the state folder is in use{user}, so it may be the program itself"
        return Finding.unchecked(probe, said, "end that program to try the address")
    return Finding.wrong(probe, cause)


def _own_files(own: ServerTls) -> list[Finding]:
    if own.certificate is None and own.key is None and own.clients is None:
        return [Finding.unchecked("own certificate", "no files were given", "give --tls-cert and --tls-key")]
    try:
        own.configuration()
    except AuditError as error:
        return [Finding.wrong("own certificate", Cause(str(error)))]
    return [] if own.certificate is None else [_valid("own certificate", own.certificate)]


def _client_files(tls: ClientTls) -> list[Finding]:
    files = {"authority": tls.authority, "client certificate": tls.certificate}
    if not any(files.values()) and tls.key is None:
        return [Finding.unchecked("client certificate", "no files were given", "give --ca, --cert and --cert-key")]
    try:
        tls.credentials("localhost:1")  # whichever address: it is the files that are read
    except AuditError as error:
        return [Finding.wrong("client certificate", Cause(str(error)))]
    return [_valid(name, path, name == "authority") for name, path in files.items() if path is not None]


def _valid(probe: str, path: Path, authorities: bool = False) -> Finding:
    end, names = expiry(path, authorities=authorities)
    left = (end - datetime.now(UTC)).days
    said = f"{path} is valid until {end:%Y-%m-%d %H:%M} UTC" + (f", for {', '.join(names[:5])}" if names else "")
    if left < SOON:
        return Finding.wrong(probe, Cause(f"{said}: {left} days are left", "have it renewed"))
    return Finding.ok(probe, said)


async def _peer(text: str, tls: ClientTls) -> Finding:
    probe = f"peer {text}"
    try:
        address = Address.parse(text)
        encrypted = tls.encrypts(text)
        if encrypted:
            tls.credentials(text)
    except AuditError as error:
        return Finding.wrong(probe, Cause(str(error)))
    seen = await look_at(address, tls if encrypted else None)
    if seen.cause is not None:
        return Finding.wrong(probe, seen.cause)
    if seen.behind_proxy:
        return Finding.unchecked(probe, seen.told, "run this where no proxy is between")
    return Finding.ok(probe, seen.told)
