# SPDX-License-Identifier: GPL-3.0-or-later
"""The counts of the individual filter against the answers that they are of.  SPEC A.14.4.

No log shows in how many answers a document took part, so a count that is lost is a filter that lets it take part again:
a folder whose counts are too small must not be served.  The quick pass needs no index and runs at every start; the
whole pass finds the documents of every record anew, and so what each count has to be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from ragseal.kernel.attestation import Record
from ragseal.kernel.errors import AuditError
from ragseal.prover.attestation.answers import secrets_of_record
from ragseal.prover.attestation.attested import near_documents
from ragseal.prover.attestation.open_window import OpenWindow
from ragseal.prover.attestation.retrieval import COUNT, QuerySecrets, decode_embedding
from ragseal.prover.storage import tombstones
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.participations import counted, counting
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Window

_WAY_OUT = "restore state.db from a copy, or begin a new budget period (period_start) once this window has closed"


def quick(state: State, window: Window) -> Iterator[str]:
    """Every problem that the kept histograms show by themselves.

    A document gives an answer at most ``words_max`` counts, and a keyword one: so many documents at least took part,
    and so often at least they must have been counted.
    """
    policy, where = window.manifest.policy, f"window {window.manifest.window!r}"
    if not policy.answers:
        return
    answers, least = 0, 0
    for (row,) in state.rows("SELECT secrets FROM queries WHERE manifest = ?", (window.digest,)):
        answers += 1
        try:
            counts = np.frombuffer(QuerySecrets.decode(row).counts, dtype=COUNT).astype(np.int64)
        except AuditError:
            continue  # the records' own pass names it
        if len(counts):
            least += max(-(-int(counts.sum()) // policy.words_max), int(counts.max()))
    found = counted(state, [window.digest])
    if found and tombstones.known_key(state) is None:
        yield f"{where}: participations are counted under a key that is gone, so no document is known again: {_WAY_OUT}"
    if found.total() < least:
        yield (
            f"{where}: its histograms show at least {least} participations of documents, {found.total()} are counted, "
            f"so documents could take part more often than the policy says: {_WAY_OUT}"
        )
    most = min(answers, policy.participations)
    if beyond := sum(times > most for times in found.values()):
        yield f"{where}: {beyond} documents are counted in more than {most} answers, the most that there can be"


def whole(journal: Journal, state: State, opened: OpenWindow, unrecorded: int) -> Iterator[str]:
    """Every count that is not what the window's records make it.

    Args:
        unrecorded: requests with secrets and without a record: what took part there is counted and is in no record.

    Raises:
        AuditError: what is kept of a record cannot be read.
    """
    policy, window = opened.policy, opened.window
    if not policy.answers:
        return
    earlier = [one for one in journal.history.windows.values() if one.index < window.index]
    before = counted(state, counting(earlier, policy))
    found = counted(state, [window.digest])
    key = tombstones.known_key(state)
    near: Counter[bytes] = Counter()
    for index in window.records:
        record = Record.decode(journal.data(index))
        request = record.signed.request
        tenant = opened.tenant(request.account)
        version = opened.version(tenant, request.index_digest)
        e = decode_embedding(secrets_of_record(state, record).embedding)
        for one in near_documents(version, e, policy.similarity):
            near[tombstones.hash_of(key or b"", tenant, one.name)] += 1
    fewer = more = 0
    for document in near.keys() | found.keys():
        room = max(0, policy.participations - before[document])
        fewer += found[document] < min(near[document], room)
        more += found[document] > min(near[document] + unrecorded, room)
    where = f"window {window.manifest.window!r}"
    if fewer:
        yield f"{where}: {fewer} documents took part in more answers than are counted: {_WAY_OUT}"
    if more:
        yield f"{where}: {more} documents are counted in more answers than they can have taken part in: {_WAY_OUT}"
