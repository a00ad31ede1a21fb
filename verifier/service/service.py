# SPDX-License-Identifier: GPL-3.0-or-later
"""The auditor as a service: hands out its proving keys, takes part in beacons, audits on request.

Only configured providers can be audited: whoever asks for an audit cannot point the auditor at an address of their
choice.  Who asks is on this machine or shows a certificate, and asks a few times per hour; of each provider one
audit runs at a time and a few wait, so none delays another's; the newest reports stay on disk in the auditor's folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from grpc_reflection.v1alpha import reflection

from ragseal.backends.group import default_group
from ragseal.groth16.keys import ZKEY
from ragseal.kernel.errors import AuditError, BudgetError, ConfigurationError, EncodingError, TransportError
from ragseal.runtime import health
from ragseal.runtime.certificates import Certificates, renewing
from ragseal.runtime.edges.address import Address
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.peers import machine_of
from ragseal.runtime.rpc import answers, bind, new_server, streams
from ragseal.runtime.stopping import asked_to_stop
from ragseal.runtime.tls import ServerTls
from ragseal.runtime.tokenbucket import TokenBuckets
from ragseal.v1 import verifier_pb2, verifier_pb2_grpc
from ragseal.verifier.audit.audit import Target, Terms, conduct, read_receipts, read_turns
from ragseal.verifier.audit.findings import Environment
from ragseal.verifier.audit.participant import Participant, Stage
from ragseal.verifier.base.builds import class_build, thinning_build
from ragseal.verifier.evidence.evidence import AUDITOR, CEREMONY
from ragseal.verifier.folder.state import State
from ragseal.verifier.outcome.outcome import NO_VERDICT
from ragseal.verifier.report.document import JSON_NAME, SIGNED_NAME
from ragseal.verifier.service.limits import check_caller, prune
from ragseal.verifier.signed.log import PROOF_NAME
from ragseal.verifier.steps.sample import Sample

SERVICE = "ragseal.v1.VerifierService"
CHUNK = 1 << 20
WAITING = 8  #: audits of a provider that may wait for the one at hand
KEPT = 256  #: finished audits that GetReport still knows
AUDITS_AN_HOUR, REPORTS_A_MINUTE = 12, 120  #: of one caller
MAX_WINDOW_NAME = 128
POLL, POLL_AWAY = 0.5, 2.0  #: seconds between two looks at a log, and at a provider that is away

T = TypeVar("T")

log = logging.getLogger("ragseal.verifier")


def environment(progress: Callable[[int, str], None] = lambda number, title: None) -> Environment:
    """The edge: this machine's clock, its CSPRNG and its fastest group."""
    return Environment(default_group(), int(time.time()), time.monotonic, secrets.token_bytes, progress)


async def detached(action: Callable[[], T]) -> T:
    """Run blocking work in a thread that does not keep the process alive.

    An audit may wait for proofs for minutes; stopping the service does not wait with it.  Whatever the work writes is
    there completely or not at all.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(cast(T, result))
        else:
            future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = action()
        except BaseException as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="ragseal-audit", daemon=True).start()
    return await future


@dataclass(slots=True)
class Job:
    """One requested audit."""

    audit_id: str
    target: Target
    window: str
    sample: Sample | None
    line: str = ""
    done: bool = False
    folder: Path | None = field(default=None)


def _chunk(path: Path, at: int) -> bytes:
    with path.open("rb") as file:
        file.seek(at)
        return file.read(CHUNK)


def _if_there(path: Path) -> bytes:
    """A file's bytes; none where the verdict could not be entered (SPEC D.19.1)."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


class VerifierServicer(verifier_pb2_grpc.VerifierServiceServicer):
    """ListKeys, GetKey, RequestAudit, GetReport."""

    def __init__(
        self,
        state: State,
        targets: Mapping[str, Target],
        receipts: Path | None = None,
        sample: Sample | None = None,
    ) -> None:
        """
        Args:
            receipts: folder of what accounts handed in, receipts and turns of the log's key; read for each audit.
            sample: of an audit that is asked for without a size; None: every record.
        """
        self._sample = sample
        self._state = state
        self._receipts = receipts
        self._targets = targets
        self._jobs: dict[str, Job] = {}
        self._queues: dict[str, asyncio.Queue[Job]] = {address: asyncio.Queue(WAITING) for address in targets}
        self._audits = TokenBuckets(AUDITS_AN_HOUR, AUDITS_AN_HOUR / 3600)
        self._asked = TokenBuckets(REPORTS_A_MINUTE, REPORTS_A_MINUTE / 60)

    def mount(self, server: Any) -> None:
        """Add the service to a grpc.aio server."""
        verifier_pb2_grpc.add_VerifierServiceServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    # --- keys ---

    @answers
    async def ListKeys(self, request: verifier_pb2.ListKeysRequest, context: Any) -> Any:
        return verifier_pb2.ListKeysResponse(
            keys=await asyncio.to_thread(self._keys), auditor_key=self._state.public_key
        )

    def _keys(self) -> list[verifier_pb2.KeyInfo]:
        out = []
        for line in self._state.key_entries():
            path = self._state.key_path(line) / ZKEY
            if line.maker(self._state.public_key) in (AUDITOR, CEREMONY) and path.is_file():
                out.append(
                    verifier_pb2.KeyInfo(
                        class_name=line.class_name,
                        class_digest=bytes.fromhex(line.class_digest),
                        key_digest=line.digest,
                        size=path.stat().st_size,
                        made_by=line.made_by,
                    )
                )
        return out

    @streams
    async def GetKey(self, request: verifier_pb2.GetKeyRequest, context: Any) -> AsyncIterator[verifier_pb2.KeyChunk]:
        if len(request.key_digest) != 32:
            raise EncodingError("a key digest has 32 bytes")
        path = await asyncio.to_thread(self._state.proving_key, bytes(request.key_digest))
        at = 0
        while chunk := await asyncio.to_thread(_chunk, path, at):  # no descriptor is held while a caller reads
            at += len(chunk)
            yield verifier_pb2.KeyChunk(data=chunk)

    # --- audits ---

    @answers
    async def RequestAudit(self, request: verifier_pb2.RequestAuditRequest, context: Any) -> Any:
        check_caller(context)
        if len(request.window) > MAX_WINDOW_NAME:
            raise EncodingError(f"a window's name has at most {MAX_WINDOW_NAME} characters")
        target = self._targets.get(request.provider)
        if target is None:
            known = ", ".join(sorted(self._targets)) or "none"
            raise ConfigurationError(f"this auditor is not set up for {request.provider[:80]!r}; it audits: {known}")
        self._audits.take(machine_of(str(context.peer())))
        job = Job(
            audit_id=secrets.token_hex(16),
            target=target,
            window=request.window,
            sample=self._asked_for(request.sample),
        )
        try:
            self._queues[request.provider].put_nowait(job)
        except asyncio.QueueFull:
            raise BudgetError(f"{WAITING} audits of this provider are waiting already: ask again later") from None
        while len(self._jobs) >= KEPT:
            self._jobs.pop(next(iter(self._jobs)))
        self._jobs[job.audit_id] = job
        return verifier_pb2.RequestAuditResponse(audit_id=job.audit_id)

    def _asked_for(self, size: int) -> Sample | None:
        """What an audit by so many records is, 0 where the caller names no size."""
        if not size:
            return self._sample
        return Sample(size) if self._sample is None else Sample(size, self._sample.confidence)

    @answers
    async def GetReport(self, request: verifier_pb2.GetReportRequest, context: Any) -> Any:
        check_caller(context)
        self._asked.take(machine_of(str(context.peer())))
        job = self._jobs.get(request.audit_id)
        if job is None:
            raise ConfigurationError("no such audit here: RequestAudit returns the id to ask for")
        data = signed = proof = b""
        if job.done and job.folder is not None:
            try:
                data = await asyncio.to_thread((job.folder / JSON_NAME).read_bytes)
                signed = await asyncio.to_thread((job.folder / SIGNED_NAME).read_bytes)
                proof = await asyncio.to_thread(_if_there, job.folder / PROOF_NAME)
            except FileNotFoundError:
                raise ConfigurationError("the report of this audit was removed: it was too old") from None
            except OSError as error:
                raise ConfigurationError(f"cannot read the report of this audit: {why(error, job.folder)}") from None
        return verifier_pb2.GetReportResponse(
            done=job.done, line=job.line, report_json=data, signed_verdict=signed, verdict_proof=proof
        )

    async def work(self) -> None:
        """ServeOptions queued audits, those of one provider one after the other, until cancelled.

        Providers do not wait for each other: one that stalls would otherwise hold up everybody's audits for a day.
        """
        await asyncio.gather(*(self._one_by_one(queue) for queue in self._queues.values()))

    async def _one_by_one(self, queue: asyncio.Queue[Job]) -> None:
        while True:
            job = await queue.get()
            await detached(functools.partial(self._conduct, job))

    def _handed_in(self) -> Terms:
        """What accounts handed in.  Where nothing can be read the audit goes on without, and the operator is told."""
        if self._receipts is None:
            return Terms()
        turns, unread = read_turns(self._receipts)
        try:
            receipts, aside = read_receipts(self._receipts)
        except ConfigurationError as error:
            log.warning("no receipts are audited: %s", error)
            receipts, aside = [], []
        return Terms(receipts=receipts, turns=turns, set_aside=[*aside, *unread])

    def _conduct(self, job: Job) -> None:
        folder = self._state.directory / "reports" / job.audit_id
        try:
            terms = replace(self._handed_in(), window=job.window, sample=job.sample)
            verdict, _ = conduct(self._state, job.target, environment(), terms, folder)
            job.folder, job.line = (folder if (folder / JSON_NAME).is_file() else None), verdict.line()
            if verdict.unkept:
                log.error("audit %s, what could not be kept: %s", job.audit_id, "; ".join(verdict.unkept))
                job.line += f"; not kept by this auditor: {'; '.join(verdict.unkept)}"
        except AuditError as error:
            job.line = f"{NO_VERDICT} {type(error).__name__}: {error}"
        except Exception:
            log.exception("audit %s failed", job.audit_id)
            job.line = f"{NO_VERDICT} internal error; the operator finds it in the log"
        log.info("%s", job.line)
        prune(folder.parent, time.time())
        job.done = True


# --- beacons ---------------------------------------------------------------------------------------------------------


def participant(state: State, target: Target, link: Any) -> Participant:
    """This auditor's part in the beacons of one provider."""
    return Participant(
        link=link,
        state=state,
        log_key=target.log_key,
        classes=class_build(),
        thinnings=thinning_build(),
        group=default_group(),
        random=secrets.token_bytes,
        now=lambda: int(time.time()),
    )


async def take_part(state: State, target: Target) -> None:
    """Take part in the beacons of a provider, window after window, until cancelled."""
    said = ""

    def say(text: str) -> None:
        nonlocal said
        if text != said:
            log.info("%s: %s", target.address, text)
        said = text

    link = await asyncio.to_thread(target.connect)
    try:
        part = participant(state, target, link)
        while True:
            pause = POLL
            try:
                stage, window = await detached(part.advance)
                say(f"window {window}: {stage.value}" if stage is not Stage.NOTHING else stage.value)
            except TransportError as error:
                say(f"away: {error}")
                pause = POLL_AWAY
            except AuditError as error:
                say(f"no part is taken: {error}")
                pause = POLL_AWAY
            except Exception:
                log.exception("beacon of %s", target.address)
                pause = POLL_AWAY
            await asyncio.sleep(pause)
    finally:
        await asyncio.to_thread(link.close)


# --- the server ------------------------------------------------------------------------------------------------------


async def run(
    state: State,
    targets: Mapping[str, Target],
    listen: str,
    own: ServerTls,
    ready: Callable[[str], None],
    reflect: bool = False,
    receipts: Path | None = None,
    sample: Sample | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; ``ready`` is called with the address that is listened on.  Renewed certificate
    files are taken meanwhile.

    ``reflect``: callers may list the services.  ``receipts``, ``sample``: as of :class:`VerifierServicer`.

    Raises:
        ConfigurationError: the address is taken or not allowed.
    """
    server = new_server()
    servicer = VerifierServicer(state, targets, receipts, sample)
    servicer.mount(server)
    healthy = health.Health(SERVICE)
    healthy.mount(server)
    if reflect:
        reflection.enable_server_reflection((SERVICE, health.SERVICE, reflection.SERVICE_NAME), server)
    certificates = Certificates(own)
    port = bind(server, listen, certificates.credentials(), own.plain)
    stop = asked_to_stop()
    await server.start()
    healthy.say(True)
    tasks = [asyncio.create_task(servicer.work())]
    tasks += [asyncio.create_task(take_part(state, target)) for target in targets.values()]
    try:
        async with renewing(certificates):
            ready(str(Address.parse(listen, listening=True).at(port)))
            await stop.wait()
    finally:
        healthy.say(False)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.stop(2.0)
