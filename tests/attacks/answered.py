# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows of the claim answers with real proofs: what a provider cheats with is its histogram, not a column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ragseal.backends.poseidon import commit_lists
from ragseal.kernel import commitment, opening, proofs, signature
from ragseal.kernel import field as scalars
from ragseal.kernel.attestation import Answer, Openings, Record, SignedRequest, SlotOpening
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.commitment import WindowClose, WindowOpen
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.opening import powers, prove_opening
from ragseal.kernel.params import R
from ragseal.kernel.policy import ANSWERS, Policy
from ragseal.kernel.proofs import BatchItem, SameEmbeddingOpening, Statement
from ragseal.kernel.statement import Returned
from ragseal.ledger.vocabulary import Vocabulary, vocabulary
from tests import simulator
from tests.attacks.machine import DIMENSION, GROUP, Machine, machine, make_tenant, policy
from tests.attacks.world import AttackWorld, Cheat, Query
from tests.simulator.parties import OPENS, Extra

NAME = "noise-tiny-two"
COUNTS = {3: 5, 7: 4, 20: 6, 50: 1}  #: an honest histogram


def words(tools: Machine, first: str = "copper") -> Vocabulary:
    """A public vocabulary of the class."""
    return vocabulary([first, *(f"word{i}" for i in range(tools.cls.N - 1))], tools.cls.N)


def answers_policy(tools: Machine, **changes: Any) -> Policy:
    own: dict[str, Any] = {
        "claim": ANSWERS, "lo": 0, "hi": 6, "gain": 12, "gate": False, "vocabulary": words(tools).root, "words_max": 2,
        "participations": 2, "similarity": 1, "answered_by": 30, "epsilon_account": "40",
    }  # fmt: skip
    return policy(tools, **{**own, **changes})


@dataclass(kw_only=True)
class Lie:
    """What the provider does differently for one answer; by default nothing."""

    counts: Mapping[int, int] = field(default_factory=lambda: COUNTS)  #: what C_y commits to, any scalars
    y_extra: Callable[[AnsweredWorld, Statement], Extra] = lambda world, s: ()  #: added to C_y
    proven: Callable[[Statement], Statement] = lambda s: s  #: clear inputs that the proof is really for
    released: Callable[[list[Returned]], list[Returned]] = lambda returned: returned  #: T of the record
    opened: Callable[[Openings], Openings] = lambda openings: openings  #: what the account gets, and the receipt signs


@dataclass(kw_only=True)
class Answered(Query):
    """All that the provider knows of one record."""

    counts: dict[int, int]
    lie: Lie


class AnsweredWorld(AttackWorld):
    """A window of answers (or of another claim, to which histograms are brought all the same)."""

    def __init__(self, name: str = NAME) -> None:
        tools = machine(name)
        super().__init__(tools, {tenant: make_tenant(tenant, on=tools) for tenant in ("north", "south")})
        self.words = words(tools)
        self.answered: Lie = Lie()  #: of the record that is just entered
        self.later = 0  #: seconds by which the present window is later than the first

    def enter_beacon(self) -> None:
        super().enter_beacon()
        opened = self.messages[-1]
        assert isinstance(opened, WindowOpen)
        self.messages[-1] = replace(opened, time=opened.time + self.later)

    def record(self, signed: SignedRequest, c_y: bytes, t_commits: tuple[int, ...], **changes: Any) -> Record:
        made = super().record(signed, c_y, t_commits, **changes)
        return replace(made, time=made.time + self.later)

    def close(self) -> None:
        self.messages.append(WindowClose(self.digest, self.seq, OPENS + 600 + self.later))

    def ask(self, account: str, cheat: Cheat | None = None, *, lie: Lie | None = None, **unused: Any) -> Record:
        """One answer, recorded and delivered."""
        plan, rng = lie or Lie(), self.rng
        cls, policy_, key = self.tools.cls, self.manifest.policy, self.key
        e = [rng.randrange(-64, 65) for _ in range(DIMENSION)]
        blinder, rho, rho_hint, salt = (rng.randrange(1, R) for _ in range(4))
        c_e = commitment.embedding_commitment(GROUP, self.generators, e, blinder)
        request = self.request(account, c_e)
        signed = SignedRequest(request, signature.sign(simulator.key_of(account), "request", request.encode()))
        stated = self.stated(request)
        extra = plan.y_extra(self, stated)
        places = sorted(plan.counts)
        points = b"".join(key.scores.y[POINT_BYTES * i : POINT_BYTES * (i + 1)] for i in places)
        values = [*(plan.counts[i] % R for i in places), rho, *(k % R for _, k in extra)]
        c_y = GROUP.msm(points + key.scores.b + b"".join(base for base, _ in extra), scalars.pack(values))
        w = [(policy_.factor(cls) * plan.counts.get(i, 0) + policy_.offset(cls)) % R for i in range(cls.N)]
        w = [x if x < 1 << 62 else x - R for x in w]
        proven = plan.proven(stated)
        scores = np.array(w, dtype=np.int64)
        noise_of = noise_key(self.seed, proven.beacon, proven.ctx)
        returned = list(self.tools.engine.answer(noise_of, scores, proven.asked))
        hidden = self.tools.engine.hidden(noise_of, scores, proven.asked)
        shown = plan.released(returned)
        entry = self.record(signed, c_y, commit_lists(cls, salt, shown, 1))
        query = Answered(
            tenant=self.tenant_of(account),
            e=e,
            blinder=blinder,
            rho=rho,
            hidden=[hidden[0]],
            shared=hidden.shared,
            rho_hint=rho_hint,
            rho_v=rho + 1,
            t_salt=salt,
            h=hidden[0][0],
            w=tuple(w),
            proven=replace(proven, t_commits=commit_lists(cls, salt, returned, 1)),
            inside=proofs.total_blinder(policy_.factor(cls), [], [], rho),
            seed=self.seed,
            statement=replace(stated, t_commits=entry.t_commits),
            cheat=Cheat(),
            counts=dict(plan.counts),
            lie=plan,
        )
        self.answered = plan
        return self.enter(account, entry, query, shown)

    def _answer(self, record: Record, tenant: str, returned: Sequence[Returned], salt: int) -> Answer:
        read = [(self.words.open_text(one.slot),) if one.flag else () for one in returned]
        slots = [SlotOpening(one.slot, one.flag, texts) for one, texts in zip(returned, read, strict=True)]
        openings = self.answered.opened(Openings(salt, tuple(slots), "It says copper."))
        return Answer(record, openings, self.receipt(record, len(self.messages) - 1, openings.digest()))

    def link(self, tenant: str, number: int, context: bytes, items: Sequence[BatchItem]) -> SameEmbeddingOpening:
        """The opening of histograms: as good as what is known of them."""
        own = [item for item in items if item.version == (tenant, number)]
        here = proofs.histogram_context(context, tenant, self.indexed(tenant, number).index.digest())
        kept = [self.kept[item.record.manifest, item.record.seq] for item in own]
        vectors = [
            scalars.pack([*(k.counts.get(i, 0) % R for i in range(self.cls.N)), k.rho])
            for k in kept
            if isinstance(k, Answered)
        ]
        weights = powers(opening.batching_challenge("histogram", here), len(own))
        witness = GROUP.combine(vectors, weights)
        relations = proofs.histogram_relations(self.key.scores, own)
        nonces = simulator.scalars(self.rng, self.cls.N + 1)
        return SameEmbeddingOpening(tenant, prove_opening(GROUP, "histogram", here, relations, witness, nonces), number)


def window(lie: Lie | None = None, name: str = NAME, **changes: Any) -> AnsweredWorld:
    """A closed window: an honest answer, and the one that is cheated."""
    world = AnsweredWorld(name)
    world.commit(policy_=answers_policy(world.tools, **changes))
    for account, its in (("alice", None), ("carol", lie)):
        world.ask(account, lie=its)
    world.close()
    return world
