# SPDX-License-Identifier: GPL-3.0-or-later
"""From a policy file to a window that is committed, with what is said about it before and afterwards.

The same for `commit`, for the running provider's administrator and for windows that it commits by itself: nobody
commits above an epsilon that was not named.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ragseal.accounting.claims import named
from ragseal.circuits.circuit import class_digest
from ragseal.kernel.attestation import COARSE_TIME
from ragseal.kernel.beacon import Seat
from ragseal.kernel.claims import LADDER
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.enrolment import places_for
from ragseal.kernel.errors import AuditError, CommitmentError, ConfigurationError, PolicyError
from ragseal.kernel.policy import Policy
from ragseal.prover.commitment import growth, registry, window_secrets
from ragseal.prover.commitment.agreed import Agreed
from ragseal.prover.commitment.manifest import Progress, require_tenants
from ragseal.prover.commitment.policy_file import Binding, policy_values, read_policy, tenant_claims
from ragseal.prover.planning import consent, spending
from ragseal.prover.provider import assembly
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.news import news
from ragseal.prover.serving.serving import Serving
from ragseal.prover.storage.window import Window
from ragseal.runtime.face import counted, when


@dataclass(frozen=True, slots=True)
class Told:
    """What an operation tells: for programs, and for people."""

    values: dict[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class Times:
    """When a window opens, and how long it stays open at least; in seconds, the former since 1970."""

    opens: int
    least: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """A policy that its provider agrees to commit to."""

    policy: Policy
    cls: AttestationClass
    terms: dict[str, Any]  #: of :func:`ragseal.prover.planning.consent.terms`
    spent: dict[str, Any]  #: of :func:`ragseal.prover.planning.spending.spending`
    claims: Mapping[str, str]  #: of tenants that have a lower one than the policy's
    agreed: Agreed  #: what the terms rest on
    new_coins: bool  #: whether coins are thrown anew although those of a window could be carried on
    left_out: str  #: why documents go on waiting; "" where none waits, or all have a place now
    carried: str  #: the window whose coins are carried on; "" without one
    passed_over: str  #: a window that is committed, has not opened, and never will; "" without one


def propose(
    provider: Provider,
    policy_file: bytes,
    agreed: float | None,
    times: Times | None = None,
    auditors: Sequence[Seat] = (),
    new_coins: bool = False,
) -> Proposal:
    """Read a policy and find out what it gives and costs.  Blocks.

    Documents that wait for a place get one, in as many shards as all need and with coins of its own, if that comes to
    no more than was named and the longer lists can be sent; else they go on waiting.

    Args:
        policy_file: TOML.
        agreed: the epsilon that was named (``--yes-epsilon-is``).
        times: of a window whose times the file leaves to its provider.
        auditors: as of Provider.commit, and ``new_coins``.

    Raises:
        PolicyError: it cannot be kept, promises too much, or comes to a larger epsilon than was named.
        ConfigurationError: the file names times that it should not.
    """
    cls, waiting = assembly.circuit_class(provider.state.settings.class_name), growth.waiting(provider.state)
    terms = _Terms(policy_file, agreed, times, tuple(auditors), growth.shards_in_use(provider.state, cls), new_coins)
    if not waiting:
        return _propose(provider, cls, terms)
    grown = replace(terms, shards=growth.shards_due(provider.state, cls), new_coins=True)
    try:
        made = _propose(provider, cls, grown)
        provider.require_answerable(made.policy)  # longer lists: what fits the index now may not fit the larger one
        return made
    except (CommitmentError, PolicyError) as error:
        made = _propose(provider, cls, terms)
        number = counted(sum(waiting.values()), "document")
        return replace(made, left_out=f"{number} go on waiting for a place, since a larger index is refused: {error}")


@dataclass(frozen=True, slots=True)
class _Terms:
    """What a window is proposed on."""

    policy_file: bytes  #: TOML
    agreed: float | None
    times: Times | None
    auditors: Sequence[Seat]
    shards: int  #: of every index
    new_coins: bool


def _propose(provider: Provider, cls: AttestationClass, asked: _Terms) -> Proposal:
    history, clock, times = provider.journal.history, provider.environment.clock, asked.times
    values = policy_values(asked.policy_file)
    if times is not None:
        fixed = sorted({"opens", "closes"} & set(values))
        if fixed:
            raise ConfigurationError(
                f"the policy names {' and '.join(fixed)}, but windows that follow each other open when it is their "
                "turn: leave that out (duration may stay: how long a window is kept open at least)"
            )
        duration = values.pop("duration", 0)
        if not isinstance(duration, int) or isinstance(duration, bool) or duration < 0:
            raise ConfigurationError("the policy's duration is a whole number of seconds")
        values |= {"opens": times.opens, "closes": times.opens + max(times.least, duration) + COARSE_TIME}
    before = history.newest
    binding = Binding(
        cls,
        class_digest(cls),
        provider.backends.embedder.dimension,
        int(clock()),
        None if before is None else before.manifest.policy.period_start,
        asked.shards,
    )
    accounts = len(registry.accounts(provider.state))
    if values.get("version_every"):
        accounts = places_for(accounts)  # as many may have asked by the window's end
    rules = read_policy(values, binding, partial(assembly.advertised_epsilon, accounts=accounts))
    assembly.check_promises(rules, cls, accounts)
    claims = tenant_claims(values, rules)
    names = require_tenants(provider.state, registry.accounts(provider.state), claims)
    if names and set(names) <= set(claims):
        raise PolicyError(
            f"every tenant has a claim below the policy's, which is {rules.claim}: let the policy have the highest of "
            f"theirs, {rules.under(max(claims.values(), key=LADDER.index)).claim}, and [tenants] those that are lower"
        )
    first = None if asked.new_coins else provider.carried(rules, asked.auditors, claims)
    coins = b"" if first is None else first.digest
    tenants = {name: claims.get(name, rules.claim) for name in names}
    known = list(history.windows.values())
    spent = spending.spending(known, assembly.circuit_class, rules, accounts, coins, tenants)
    terms = consent.terms(rules, cls, spent)
    consent.require(terms, asked.agreed, spent.get("error"))
    following = history.following
    carried = "" if first is None else first.manifest.window
    passed_over = "" if following is None else following.manifest.window
    return Proposal(
        policy=rules,
        cls=cls,
        terms=terms,
        spent=spent,
        claims=claims,
        agreed=Agreed(accounts, coins),
        new_coins=asked.new_coins,
        left_out="",
        carried=carried,
        passed_over=passed_over,
    )


def told(provider: Provider, made: Window, proposal: Proposal, seconds: float) -> Told:
    """What is said of a window that has just been committed.

    Raises:
        ConfigurationError: it could not be read; says that the window is committed.
    """
    try:
        return _told(provider, made, proposal, seconds)
    except AuditError as error:
        raise ConfigurationError(
            f"window {made.manifest.window} IS committed, entry {made.index} of the log; what there is to say of it "
            f"could not be read: {error}. `ragseal-provider status` shows it"
        ) from None


def _told(provider: Provider, made: Window, proposal: Proposal, seconds: float) -> Told:
    shared = window_secrets.shared_documents(provider.state, made.digest)
    split = window_secrets.split_documents(provider.state, made.digest, proposal.policy.chunks_max)
    name = made.manifest.window
    before = _before(provider, made)
    explained = consent.lines(proposal.terms, proposal.policy, proposal.cls)
    values = {
        "window": name,
        "manifest": made.digest.hex(),
        "ledger_index": made.index,
        "auditors": {one.owner: one.public_key.hex() for one in made.manifest.auditors},
        "shared_documents": [{"tenants": [one, other], "documents": count} for one, other, count in shared],
        "split_documents": [{"tenant": one, "documents": count, "parts": most} for one, count, most in split],
        "carries_on_coins_of": proposal.carried or None,
        "passed_over": proposal.passed_over or None,
        "left_out": proposal.left_out or None,
        **proposal.terms,
        "budget": proposal.spent,
        "news": news(None if before is None else before.manifest, made.manifest),
        "tenants": {tenant: claim for claim, tenants in made.manifest.claims.items() for tenant in tenants},
        "explanation": explained,
        "seconds": round(seconds, 2),
    }
    said = list(values["news"])
    if proposal.left_out:
        said.append(proposal.left_out)
    if proposal.passed_over:
        said.append(
            f"window {proposal.passed_over}, committed before it, had not opened and never will; coins that its "
            "beacon made known count all the same"
        )
    policy = proposal.policy
    known = [] if before is None else documents_said(provider, before.digest, before.manifest.policy.chunks_max)
    said += [line for line in documents_said(provider, made.digest, policy.chunks_max) if line not in known]
    if before is not None and not said:
        last = before.manifest.window
        said.append(f"nothing is new: tenants, accounts, auditors, keys and policy are those of window {last}")
    said += [
        f"tenant {', '.join(tenants)} has the claim {claim} here, which is lower than the window's, {policy.claim}: "
        f"{named(claim).in_short()[0]}"
        for claim, tenants in made.manifest.claims.items()
        if claim != policy.claim
    ]
    times = f"{when(policy.opens)} to {when(policy.closes)}"
    said.append(f"window {name} is committed, for {times}, manifest {made.digest.hex()}")
    if proposal.carried:
        said.append(f"it carries on the coins of window {proposal.carried}")
    said += spending.lines(proposal.spent)
    return Told(values, "\n".join(said))


def _before(provider: Provider, made: Window) -> Window | None:
    """The window that was committed before this one; None for the first."""
    windows = list(provider.journal.history.windows.values())
    earlier = [one for one in windows if one.index < made.index]
    return max(earlier, key=lambda one: one.index, default=None)


def documents_said(provider: Provider, manifest: bytes, slots: int) -> list[str]:
    """What a window's documents do to its numbers: those of two tenants, and those of more parts than it counts."""
    made = provider.journal.history.window(manifest).manifest
    if not made.policy.form.private:
        return []
    of = {tenant: claim for claim, tenants in made.claims.items() for tenant in tenants}
    shared = window_secrets.shared_documents(provider.state, manifest)
    said = [
        f"tenants {one} and {other} hold {count} of the same documents: "
        + (
            "epsilon bounds each index by itself, so accounts of both that work together learn about these documents "
            "twice as much"
            if of[one] == of[other]
            else f"they have the claims {of[one]} and {of[other]}, and of these documents only the weaker one holds, "
            f"{min(of[one], of[other], key=LADDER.index)}, since accounts of both may work together"
        )
        for one, other, count in shared
    ]
    return said + split_said(window_secrets.split_documents(provider.state, manifest, slots), slots)


def split_said(split: Sequence[tuple[str, int, int]], slots: int) -> list[str]:
    """One line a tenant with documents that were split into more parts than the policy counts as one document."""
    part = "one part" if slots == 1 else f"{slots} parts"
    return [
        f"tenant {one} has {count} documents whose ids say that they are split (NAME#1, NAME#2, ...), into up to "
        f"{most} parts: epsilon is about {part} of each. chunks_max = {most} in the policy says it about each of them "
        "whole, and is that much larger"
        for one, count, most in split
    ]


def commit(
    provider: Provider,
    policy_file: bytes,
    name: str,
    agreed: float | None,
    auditors: Sequence[Seat] = (),
    progress: Progress = lambda _: None,
    new_coins: bool = False,
) -> Told:
    """Commit to a window of a provider that does not serve.  Raises what :func:`propose` and Provider.commit do."""
    started = time.monotonic()
    progress("checking the policy")
    proposal = propose(provider, policy_file, agreed, None, auditors, new_coins)
    terms = progress, auditors, proposal.new_coins, proposal.agreed, proposal.claims
    provider.commit(proposal.policy, name, *terms)
    return told(provider, provider.journal.history.named(name), proposal, time.monotonic() - started)


async def commit_while_serving(
    serving: Serving,
    policy_file: bytes,
    name: str,
    agreed: float | None,
    times: Times | None = None,
    auditors: Sequence[Seat] = (),
    progress: Progress = lambda _: None,
    new_coins: bool = False,
) -> Told:
    """Commit to the following window of a provider that serves; its beacon begins at once.

    Raises:
        AuditError: as :func:`commit`; nothing is in the ledger then.
    """
    provider, started = serving.provider, time.monotonic()
    async with serving.committing:
        progress("checking the policy")
        proposal = await serving.aside(lambda: propose(provider, policy_file, agreed, times, auditors, new_coins))
        terms = progress, auditors, proposal.new_coins, proposal.agreed, proposal.claims
        signed = await serving.aside(lambda: provider.prepare(proposal.policy, name, *terms))
        made = Window(signed, signed.manifest.digest(), 0)
        await asyncio.to_thread(provider.coins.load_key, made)  # or its beacon ends in nothing
        await asyncio.to_thread(provider.backends.keys.backend, signed.manifest.key_digest)
        await serving.aside(lambda: provider.read(made))
        progress("entering the manifest in the ledger")
        await serving.journal.append(lambda: signed)
        serving.beacon.wake()
        window = serving.journal.history.named(name)
        return await serving.aside(lambda: told(provider, window, proposal, time.monotonic() - started))
