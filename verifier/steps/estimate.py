# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase C as the auditor checks it: the signed links, the coalition they show, and their certificate.  SPEC C and D.9.

The list of links is kept before a single block is asked for, and the nonce that sampled blocks are drawn with is the
auditor's own: a provider that breaks off gains neither another list nor another sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ragseal.kernel import certificate, commitment, estimate, estimate_class, link_list
from ragseal.kernel.bn254 import Group
from ragseal.kernel.certificate import BlockBatch, BlockKey, Scope
from ragseal.kernel.errors import AuditError, ConfigurationError
from ragseal.kernel.link_list import Listing, SignedLinks, TenantLinks
from ragseal.kernel.transcript import tagged_hash
from ragseal.verifier.evidence.evidence import OWN_FOLDER, Auditor, ConfiguredKey, Refused, Undecided, binds, held
from ragseal.verifier.steps.asking import Asker
from ragseal.verifier.steps.blocks import (
    Caught,
    Effort,
    Ranks,
    caught,
    sampled_blocks,
    seed_of,
)
from ragseal.verifier.steps.manifest import Window
from ragseal.verifier.steps.recorder import Recorder, quiet
from ragseal.verifier.steps.records import LoggedRecord

BATCH = estimate.ASKED_TOGETHER
SHOWN = 1000  #: links of a tenant that the report lists
FULL, SAMPLED = "full", "sampled"


@dataclass(frozen=True, slots=True)
class Joined:
    """A link as the report shows it."""

    seqs: tuple[int, int]
    accounts: tuple[str, str]


@dataclass(frozen=True, slots=True)
class TenantEstimate:
    """What the links of one tenant show, and how far they are certified."""

    tenant: str
    records: int
    links: int
    complete: bool  #: every link is listed; else as many as join the same records
    pairs: int  #: that are compared
    found: estimate.Estimate
    certificate: str  #: FULL or SAMPLED
    blocks: int
    caught: Caught
    listed: tuple[Joined, ...]  #: the first :data:`SHOWN` links

    def details(self) -> dict[str, Any]:
        """As the report shows it."""
        return {
            "tenant": self.tenant,
            "c": self.found.c,
            "members": self.found.members,
            "clusters": [{"accounts": c.accounts, "records": len(c.records)} for c in self.found.clusters],
            "records": self.records,
            "links": self.links,
            "list": "complete" if self.complete else "spanning",
            "listed": [{"seqs": one.seqs, "accounts": one.accounts} for one in self.listed],
            "pairs_within_tau": self.pairs,
            "certificate": self.certificate,
            "blocks": self.blocks,
            "caught": {
                "confidence": self.caught.confidence,
                "share": self.caught.share,
                "unlisted_links": {f"at most {d} at a record": h for d, h in self.caught.links.items()},
                "unlisted_group": self.caught.group,
            },
        }


@dataclass(frozen=True, slots=True)
class Estimation:
    """The window's estimate."""

    k_max: int
    theta: Fraction
    tau: int
    tenants: tuple[TenantEstimate, ...]
    made_by: str  #: who made the estimate's key
    tau_time: int = 0

    @property
    def c(self) -> int:
        """Most accounts joined by links in one tenant."""
        return max((one.found.c for one in self.tenants), default=0)

    @property
    def certificate(self) -> str:
        return FULL if all(one.certificate == FULL for one in self.tenants) else SAMPLED

    @property
    def members(self) -> tuple[str, ...]:
        """Accounts of the largest coalitions, sorted; empty if no two accounts are joined."""
        return tuple(sorted({m for one in self.tenants if one.found.c == self.c for m in one.found.members}))

    def details(self) -> dict[str, Any]:
        """As report.json carries it."""
        links, pairs = sum(one.links for one in self.tenants), sum(one.pairs for one in self.tenants)
        spanning = not all(one.complete for one in self.tenants)
        joined = {a for one in self.tenants for cluster in one.found.clusters for a in cluster.accounts}
        return {
            "c": self.c,
            "k_max": self.k_max,
            "theta": self.theta,
            "tau": self.tau,
            "tau_time": self.tau_time,
            "members": self.members,
            "links": links,
            "certificate": self.certificate,
            "caught": {
                "share": max((one.caught.share for one in self.tenants), default=0.0),
                "confidence": float(min((one.caught.confidence for one in self.tenants), default=Fraction(1))),
            },
            # of a spanning list nobody knows how many links there are, only which records they join
            "rates": {
                "linked_pairs": None if spanning else links / pairs if pairs else 0.0,
                "accounts_joined": len(joined),
            },
            "tenants": [one.details() for one in self.tenants],
        }


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What step 9 starts from."""

    group: Group
    window: Window
    auditor: Auditor
    asker: Asker
    records: Sequence[LoggedRecord]
    effort: Effort
    #: a name -> this auditor's nonce of that name: secret until then, durable before it is known, the same ever after
    sample_nonce: Callable[[bytes], bytes]
    root: bytes  #: of the log up to the window's end
    progress: Callable[[str], None]

    def of(self, tenant: str) -> list[LoggedRecord]:
        """The tenant's records, in the order of the ledger."""
        return [one for one in self.records if one.tenant == tenant]

    def reach(self, own: Sequence[LoggedRecord]) -> estimate.Reach:
        """Which of a tenant's records are compared."""
        policy = self.window.manifest.policy
        return estimate.reach_of([one.record.time for one in own], policy.tau, policy.tau_time)


def check_estimate(inquiry: Inquiry, say: Recorder = quiet) -> Estimation:
    """Step 9: the coalition estimate, certified.

    Raises:
        Refused: what the provider signed does not hold, with the tenant, the blocks or both lists as evidence.
        Undecided: what was delivered is not the provider's word.
        ConfigurationError: this auditor has no key of the estimate's circuit.
    """
    policy = inquiry.window.manifest.policy
    chosen = _choose_key(inquiry.auditor.estimates)
    key = chosen.load()
    if key.digest != chosen.digest:
        raise ConfigurationError(f"the key file of {chosen.digest.hex()} holds another key: restore it or make one")
    say(estimate_key=chosen.digest, **chosen.origin, records_a_block=key.cls.n)
    signed = _links(inquiry, say)
    checked = []
    for listed in signed.body.tenants:
        own = inquiry.of(listed.tenant)
        scope = Scope(
            cls=key.cls,
            key_digest=key.digest,
            manifest=inquiry.window.digest,
            links_digest=signed.body.digest(),
            tenant=listed.tenant,
            policy=policy,
            reach=inquiry.reach(own),
        )
        one = _check_tenant(inquiry, key, scope, listed, own)
        checked.append(one)
        say(**{f"estimate[{one.tenant}]": one.details()})
    theta = Fraction(policy.theta)
    made = Estimation(policy.k_max, theta, policy.tau, tuple(checked), chosen.made_by, policy.tau_time)
    reached = {"theta": theta, "tau": policy.tau, "tau_time": policy.tau_time}
    say(c=made.c, k_max=policy.k_max, **reached, members=made.members, certificate=made.certificate)
    return made


def check_coalition(made: Estimation, gate: bool = True) -> None:
    """The policy's gate; without one an estimate is a fact in the report.

    Raises:
        Undecided: more accounts are joined than the policy counts on.  That is what accounts do, not the provider.
    """
    if gate and made.c > made.k_max:
        raise Undecided(
            f"{made.c} accounts ask as one, the policy counts on k_max = {made.k_max}: this epsilon does not cover "
            f"them: {', '.join(made.members)}",
            "ask the provider for windows with a larger k_max; no further audit changes this one",
            c=made.c,
            members=made.members,
        )


def _choose_key(configured: Sequence[ConfiguredKey[BlockKey]]) -> ConfiguredKey[BlockKey]:
    """The configured key of the largest size, one that the provider did not make if there is a choice."""
    if not configured:
        raise ConfigurationError(
            "this auditor has no key of the coalition estimate: make one with `ragseal-verifier keygen`, and let the "
            "provider fetch it before the audit"
        )
    return max(configured, key=lambda one: (binds(one.made_by), estimate_class.CLASSES[one.class_name].n))


def _links(inquiry: Inquiry, say: Recorder) -> SignedLinks:
    """The provider's one list, about exactly the records that this auditor has."""
    window = inquiry.window
    data = inquiry.asker.links()
    with held("the list of links: "):  # the provider signed that this is its answer
        signed = SignedLinks.decode(data)
        signed.verify(window.manifest.window_key)
        if signed.body.manifest != window.digest:
            raise Refused("the links are of a different window")
    _about_the_records(inquiry, signed)
    first = SignedLinks.decode(inquiry.auditor.first_links(window.digest, data))
    if first.body != signed.body:
        _by_the_provider(first, window)
        raise Refused(
            "the provider signed a second list of links for this window: there is one, fixed before any block is asked "
            "for",
            first=first.body.digest(),
            second=signed.body.digest(),
            first_signature=first.signature,
            second_signature=signed.signature,
        )
    say(links_digest=signed.body.digest(), links=sum(len(one.packed) // 8 for one in signed.body.tenants))
    return signed


def _about_the_records(inquiry: Inquiry, signed: SignedLinks) -> None:
    """The provider's signed list covers exactly the records that its signed log has, and joins no others.

    All of it before a block is asked for: who withholds one tenant's does not hide what the list says of another.
    """
    if [one.tenant for one in signed.body.tenants] != [one.tenant for one in inquiry.window.manifest.tenants]:
        raise Refused("the links must cover every tenant of the manifest, in its order", links=signed.body.digest())
    for one in signed.body.tenants:
        own = inquiry.of(one.tenant)
        digests = [record.digest for record in own]
        if (one.records, one.records_digest) != (len(own), link_list.records_digest(digests)):
            raise Refused(
                f"the links of tenant {one.tenant!r} are about records different from those in the log",
                tenant=one.tenant,
                stated=one.records,
                counted=len(own),
            )
        reach = inquiry.reach(own)
        if not all(reach.compares(a, b) for a, b in one.links()):
            policy = inquiry.window.manifest.policy
            raise Refused(
                f"tenant {one.tenant!r}: a link joins records that are not compared, being more than tau = "
                f"{policy.tau} apart" + (f" and tau_time = {policy.tau_time} s" if policy.tau_time else "")
            )


def _by_the_provider(first: SignedLinks, window: Window) -> None:
    """The list that this auditor kept is one that the provider signed for this very window."""
    try:
        first.verify(window.manifest.window_key)
    except AuditError as error:
        raise Undecided(f"the list of links that this auditor kept: {error}", OWN_FOLDER) from None
    if first.body.manifest != window.digest:
        raise Undecided("the list of links that this auditor kept is of a different window", OWN_FOLDER)


def _check_tenant(
    inquiry: Inquiry, key: BlockKey, scope: Scope, listed: TenantLinks, own: Sequence[LoggedRecord]
) -> TenantEstimate:
    links, reach, n = listed.links(), scope.reach, scope.cls.n
    found = estimate.components([one.record.signed.request.account for one in own], links)
    wanted = estimate.full_blocks(reach, n, inquiry.effort.full)
    if wanted is not None:
        kind, said = FULL, Caught.everything()
    else:
        nonce = inquiry.sample_nonce(tagged_hash("estimate-nonce", scope.manifest, scope.links_digest))
        parts = (nonce, inquiry.root, scope.manifest, scope.links_digest, scope.tenant.encode())
        count = inquiry.effort.sampled
        kind, wanted = SAMPLED, sampled_blocks(len(own), reach.widest, n, count, seed_of(parts))
        said = caught(reach, n, count, inquiry.effort.confidence)
    _check_blocks(inquiry, key, scope, [one.record.signed.request.c_e for one in own], listed.listing(), wanted)
    return TenantEstimate(
        tenant=scope.tenant,
        records=len(own),
        links=len(links),
        complete=listed.complete,
        pairs=reach.pairs,
        found=found,
        certificate=kind,
        blocks=len(wanted),
        caught=said,
        listed=tuple(_joined(own[a], own[b]) for a, b in links[:SHOWN]),
    )


def _joined(a: LoggedRecord, b: LoggedRecord) -> Joined:
    return Joined((a.record.seq, b.record.seq), (a.record.signed.request.account, b.record.signed.request.account))


def _check_blocks(
    inquiry: Inquiry,
    key: BlockKey,
    scope: Scope,
    c_e: Sequence[bytes],
    listing: Listing,
    wanted: Sequence[Ranks],
) -> None:
    generators = commitment.generators(inquiry.group, scope.policy.dimension)
    for start in range(0, len(wanted), BATCH):
        part = wanted[start : start + BATCH]
        inquiry.progress(f"tenant {scope.tenant}: block {start} of {len(wanted)}")
        data = inquiry.asker.blocks(scope.key_digest, scope.tenant, part)
        which = f"tenant {scope.tenant!r}, blocks {start}..{start + len(part) - 1}: "
        with held(which, tenant=scope.tenant, blocks=part):
            blocks = [certificate.make_block(scope, ranks, c_e, listing) for ranks in part]
            certificate.verify_blocks(inquiry.group, key, generators, scope, blocks, BlockBatch.decode(data))
