# SPDX-License-Identifier: GPL-3.0-or-later
"""Tenants of different claims in one window: what holds for each, and what a provider cannot make of it.  SPEC D.24."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel import verdict as messages
from ragseal.kernel.commitment import Manifest, WindowClose
from ragseal.kernel.errors import AuditError, CommitmentError, EncodingError, PolicyError
from ragseal.kernel.policy import EXACT, UNSEEN, UNTIL_DELIVERED, Policy
from ragseal.kernel.proofs import Statement, statement_of
from ragseal.kernel.verdict import Claimed, claims_text
from ragseal.prover.administration.status import status
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.commitment.policy_file import policy_values, tenant_claims
from ragseal.prover.fsck.fsck import examine
from ragseal.prover.serving import committing
from ragseal.verifier.cli import audit_command
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.report import document, page, summary
from ragseal.verifier.report.claim import of_tenants
from ragseal.verifier.signed.log import entry_of
from ragseal.verifier.signed.oscal import assessment_results
from ragseal.verifier.signed.statement import read_verdict, signed_verdict
from ragseal.verifier.steps import epsilon, period, proofs
from ragseal.verifier.steps.manifest import Window
from ragseal.verifier.steps.sample import Sample, share_bound
from tests.attacks import checks
from tests.attacks.checks import without
from tests.attacks.removal import Check
from tests.attacks.world import accepted, refused
from tests.claims.scene import view
from tests.classes import DECOYS
from tests.simulator import NOW, OPENS
from tests.simulator import provider as scene
from tests.simulator.auditing import sealed
from tests.simulator.coined import CoinedWorld, Tenant, of_claim, policy
from tests.simulator.live import live
from tests.simulator.ticking import ticking

pytestmark = pytest.mark.slow

HOUR = 3600
LATER = NOW + 100 * HOUR


def mixed(claim: str = EXACT) -> CoinedWorld:
    """A closed window of until-delivered whose tenant north has a lower claim."""
    world = CoinedWorld()
    world.commit(claims={"north": claim})
    world.queries()
    world.close()
    return world


def window(
    world: CoinedWorld,
    number: int,
    claims: Mapping[str, str] | None = None,
    *,
    carries: bytes | None = None,
    opens: int = 0,
    **changes: Any,
) -> None:
    """Window w<number>, an hour after the one before, nothing asked; ``opens``: what its opening states instead."""
    start = OPENS + number * HOUR
    stated = policy(**{"opens": start, "closes": start + HOUR, **changes})
    world.commit(f"w{number}", policy_=stated, claims=claims, carries=carries)
    world.messages[-1] = replace(world.messages[-1], time=opens or start)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, (opens or start) + 600))


# --- samples ---------------------------------------------------------------------------------------------------------


def test_many_exact_records_do_not_hide_that_those_of_a_private_tenant_are_forged() -> None:
    """A share is caught among the records of each claim: with half of south's to be caught, both of them are proven."""
    world = mixed()
    verdict = world.audit(sample=Sample(detect=Fraction(1, 2), confidence=Fraction(9, 10)))
    assert verdict.verdict == "SAMPLED-PASS"
    assert verdict.beta is not None
    assert verdict.beta < 1 / 2
    (drawn,) = world.asked
    souths = {seq for (_, seq), kept in world.kept.items() if kept.tenant == "south"}
    assert len(souths) == 2
    assert souths <= set(drawn)
    assert len(drawn) < verdict.records


def test_beta_of_a_sample_is_that_of_the_claim_of_which_least_is_known() -> None:
    world = mixed()
    verdict = world.audit(sample=Sample(3, Fraction(9, 10)))
    (drawn,) = world.asked
    assert len(drawn) == 3
    taken = Counter(kept.tenant for (_, seq), kept in world.kept.items() if seq in drawn)
    betas = [share_bound([(total, taken[name])], Fraction(9, 10)) for name, total in (("north", 5), ("south", 2))]
    assert verdict.beta == max(betas)
    assert verdict.beta > share_bound([(5, taken["north"]), (2, taken["south"])], Fraction(9, 10))


# --- honest windows --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", [EXACT, UNSEEN])
def test_an_honest_window_of_two_claims_passes_and_begins_with_the_weaker(claim: str) -> None:
    world = mixed(claim)
    verdict = accepted(world, receipts=world.receipts())
    assert f" tenants={claim}:north,{UNTIL_DELIVERED}:south " in verdict.line()
    assert "epsilon_audit" not in verdict.line()
    built = document.build(verdict)
    assert built["epsilon_audit"] == "none"
    weak, strong = built["claims"]
    assert (weak["tenants"], strong["tenants"]) == (["north"], ["south"])
    assert strong["epsilon_audit"] == strong["epsilon"]["unseen"] == pytest.approx(1.4508, abs=1e-4)
    shown = page.render(built)
    assert f"Tenants with the claim {claim}: north" in shown
    assert f"Tenants with the claim {UNTIL_DELIVERED}: south" in shown


def test_a_signed_verdict_says_each_claim_and_goes_into_a_log() -> None:
    world = mixed()
    verdict = accepted(world)
    built = document.build(verdict)
    reports = {"report.json": document.to_json(built), "report.html": page.render(built).encode()}
    signed = signed_verdict(verdict, built, reports, world.signer.verifier, world.auditor_key)
    found = read_verdict(signed, verdict.auditor, reports)
    assert found.claims == verdict.claims
    assert [(one.claim, one.tenants) for one in found.claims] == [(EXACT, ("north",)), (UNTIL_DELIVERED, ("south",))]
    assert entry_of(signed, found).claimed == verdict.claims
    results = json.loads(assessment_results(signed, found))["assessment-results"]["results"]
    said = [one["value"] for one in results[0]["props"] if one["name"] == "tenants"]
    assert said == [f"{EXACT}: north", f"{UNTIL_DELIVERED}: south"]


@pytest.mark.parametrize("shards", [1, 2])
def test_an_honest_provider_of_two_claims_passes_and_its_folder_is_whole(shards: int, tmp_path: Path) -> None:
    with live(tmp_path, coins=True, kind=scene.Kind(DECOYS, shards), claims={"acme": EXACT}) as made:
        for name, text, claim in (
            ("alice", "acme report number 3", EXACT), ("carol", "globex report number 4", UNTIL_DELIVERED)
        ):  # fmt: skip
            with made.client(name=name) as client:
                assert client.ask(text).claim == claim, "an account is told the claim of its tenant"
                client.ask(text)
        made.end_window()
        line = f"PASS claim=exact epsilon=none private=nothing tenants=exact:acme,{UNTIL_DELIVERED}:globex mode=full "
        assert made.audited().line().startswith(line)
        made.restart()
        assert made.audited().line().startswith(line)
        found = examine(made.provider, True)
    assert not found.findings, found.findings
    assert found.checked["records"] == 4


def test_versions_of_both_claims_follow_the_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene, "SHAPE", IndexShape(DECOYS.N, scene.DIMENSION))
    text = "acme keeps zebras"
    with ticking(tmp_path, coins=True, kind=scene.ONE_DECOYS, claims={"acme": EXACT}) as made:
        made.put(("zebras", text))
        made.tick()
        with made.client() as client:
            found = client.ask(text)
        assert found.best is not None
        assert found.best.id == "zebras"
        with made.client(name="carol") as client:
            client.ask("globex report number 4")
        made.end_window()
        assert made.audited().line().startswith("PASS claim=exact epsilon=none private=nothing tenants=exact:acme,")
        assert not examine(made.provider, True).findings


# --- 1. a tenant's claim changes between windows ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "why"),
    [(EXACT, "have no coin, so nothing bounds what absence tells"), (UNSEEN, "mixes the claims unseen and")],
)
def test_what_a_tenant_was_shown_under_a_lower_claim_is_not_forgotten(claim: str, why: str) -> None:
    """The attack: exact in one window, until-delivered in the next of the same budget period."""
    world = CoinedWorld()
    window(world, 0, {"north": claim})
    window(world, 1)
    refused(world, 11, why, window="w1", now=LATER)
    with without(checks.CHARGED_BY_TENANT):
        assert "epsilon_audit" in accepted(world, window="w1", now=LATER).line()


def test_a_tenant_that_goes_down_to_unseen_has_no_number_over_both_windows() -> None:
    """Lists with decoys take a delta, and a verdict of unseen has none."""
    world = CoinedWorld()
    window(world, 0)
    window(world, 1, {"north": UNSEEN})
    refused(world, 11, "mixes the claims unseen and until-delivered", window="w1", now=LATER)
    with without(checks.CHARGED_BY_TENANT):
        accepted(world, window="w1", now=LATER)


def test_other_tenants_keep_their_number_when_one_goes_down_to_exact() -> None:
    world = CoinedWorld()
    window(world, 0)
    window(world, 1, {"north": EXACT})
    verdict = accepted(world, window="w1", now=LATER)
    assert [(one.claim, one.left_out) for one in verdict.claims] == [(EXACT, 0), (UNTIL_DELIVERED, 0)]
    strong = verdict.higher[0]
    assert strong.lower == ("north",)
    assert [one.window for one in strong.windows] == ["w0", "w1"]


def test_a_tenant_by_a_new_name_is_said_to_share_what_the_old_one_showed() -> None:
    """North shows its documents, and is gone in the next window, whose tenants claim that theirs are in doubt."""
    world = CoinedWorld()
    window(world, 0, {"north": EXACT})
    world.placed = {"south": world.placed["south"]}
    world.registry = [one for one in world.registry if one.tenant == "south"]
    window(world, 1)
    verdict = accepted(world, window="w1", now=LATER)
    assert verdict.budget is not None
    assert verdict.budget.lower == ("north",)
    built = document.build(verdict)
    said = "In windows of this log the tenants north have a lower claim than others. A document that stands"
    assert said in built["claim"]
    assert built["does_not_say"][0].startswith(said)


def test_a_tenant_by_a_new_name_in_a_new_budget_period_is_said_to_share_it_too() -> None:
    """Epsilon of the whole log counts the window before by its coins, as if north's documents had stayed behind."""
    world = CoinedWorld()
    window(world, 0, {"north": EXACT})
    world.placed = {"south": world.placed["south"]}
    world.registry = [one for one in world.registry if one.tenant == "south"]
    window(world, 2, period_start=OPENS + 2 * HOUR)
    verdict = accepted(world, window="w2", now=LATER)
    assert " left_out=1 epsilon_log=2.9" in verdict.line()
    assert verdict.budget is not None
    assert verdict.budget.lower == ("north",)
    assert "the tenants north have a lower claim than others" in document.build(verdict)["claim"]


def test_an_earlier_verdict_says_that_a_tenant_was_shown_more_later() -> None:
    world = CoinedWorld()
    window(world, 0)
    window(world, 1, {"north": EXACT})
    seen, own = view(world), world.auditor()
    (at, first), _ = seen.manifests()
    audited = Window(at, first, first.manifest.digest(), DECOYS)
    span = period.period(seen, audited, own)
    assert [one.window for one in span.later] == ["w1"]
    assert epsilon.whole_log(seen, audited, own, span) == math.inf
    with without(checks.CHARGED_BY_TENANT):
        kept = period.period(seen, audited, own)
        assert epsilon.whole_log(seen, audited, own, kept) == pytest.approx(2 * 1.4508, abs=1e-3)


def test_a_new_budget_period_names_what_was_shown_before_it() -> None:
    world = CoinedWorld()
    window(world, 0, {"north": EXACT})
    window(world, 2, period_start=OPENS + 2 * HOUR)
    verdict = accepted(world, window="w2", now=LATER)
    assert " left_out=1 epsilon_log=inf " in verdict.line()
    assert verdict.tone == "mid"


def test_a_page_is_green_only_if_every_tenant_s_claim_is() -> None:
    """The weakest claim comes first, and it is not always the one of which more is known from before."""
    world = CoinedWorld()
    start = OPENS + 2 * HOUR
    world.commit("w0", policy_=of_claim(UNSEEN), claims={"south": EXACT})
    world.messages[-1] = replace(world.messages[-1], time=OPENS)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, OPENS + 600))
    window(world, 2, {"north": UNSEEN}, period_start=start)
    verdict = accepted(world, window="w2", now=LATER)
    assert [one.epsilon_log for one in verdict.claims] == ["2.90167", "inf"]
    built = document.build(verdict)
    assert (verdict.tone, summary.tone(built)) == ("mid", "mid")
    assert summary.heading(built) == "PASS: weak over the whole log, for some tenants"


def misdated() -> CoinedWorld:
    """Coins are thrown, carried on by a window in which north is exact, and again by one that claims it private.

    By the times of their entries the first two ended before the budget period, of which all three are.
    """
    world, before = CoinedWorld(), OPENS - 10 * HOUR
    window(world, 0, opens=before, period_start=OPENS)
    first = world.digest
    window(world, 1, {"north": EXACT}, carries=first, opens=before + 900, period_start=OPENS)
    window(world, 2, carries=first, period_start=OPENS)
    return world


def test_a_window_of_the_same_coins_counts_whenever_it_says_that_it_ended() -> None:
    world = misdated()
    refused(world, 11, "have no coin, so nothing bounds what absence tells", window="w2", now=LATER)
    with without(checks.COINS_COUNT):
        assert " left_out=2 epsilon_log=inf " in accepted(world, window="w2", now=LATER).line()


def test_coins_of_a_window_in_which_a_tenant_had_none_are_not_its_own_to_carry_on() -> None:
    world = CoinedWorld()
    world.enter_manifest("w0", claims={"north": EXACT})
    first = world.digest
    world.enter_sealed(opened=True)
    window(world, 1, carries=first)
    refused(world, 2, "from a claim without a coin takes new coins", window="w1", now=LATER)
    with without(checks.CARRIED_TENANTS):
        accepted(world, window="w1", now=LATER)


UNSEEN_ACME = '[tenants.acme]\nclaim = "unseen"'


@pytest.mark.parametrize(
    ("before", "after"), [({"acme": EXACT}, ""), ({}, UNSEEN_ACME), ({"acme": EXACT}, UNSEEN_ACME)]
)
def test_a_provider_is_told_before_it_commits_that_a_tenants_claim_changed(
    before: Mapping[str, str], after: str, tmp_path: Path
) -> None:
    with live(tmp_path, coins=True, kind=scene.ONE_DECOYS, claims=before) as made:
        made.end_window()
        made.stop()
        made.provider = made._make()
        made.clock.now += 7200
        with pytest.raises(PolicyError, match="no epsilon follows for this budget period"):
            committing.commit(made.provider, POLICY.format(claims=after).encode(), "w2", None)
        made.start()


def test_a_provider_takes_a_tenant_down_to_exact_within_a_period(tmp_path: Path) -> None:
    with live(tmp_path, coins=True, kind=scene.ONE_DECOYS) as made:
        made.end_window()
        made.stop()
        made.provider = made._make()
        made.clock.now += 7200
        text = POLICY.format(claims='[tenants.acme]\nclaim = "exact"')
        told = committing.commit(made.provider, text.encode(), "w2", None)
        assert told.values["carries_on_coins_of"] == "w1"
        assert "tenant acme has the claim exact, until-delivered before" in told.text
        made.start()
        made.open()
        with made.client(name="carol") as client:
            client.ask("globex report number 4")
        made.end_window()
        first, own = made.provider.journal.history.named("w1"), made.auditor()
        nonces, released = {first.digest: b"a" * 32, **own.nonces}, {first.digest: sealed(first), **own.released}
        verdict = made.audited(replace(own, nonces=nonces, released=released))
        assert verdict.passed, verdict.line()
        assert [(one.claim, one.word) for one in verdict.claims] == [
            (EXACT, ()),
            (UNTIL_DELIVERED, ("late",)),
        ]


# --- 2. answers by another tenant's claim ----------------------------------------------------------------------------


@pytest.mark.parametrize(("north", "answered"), [(EXACT, UNTIL_DELIVERED), (UNTIL_DELIVERED, UNSEEN)])
def test_a_tenant_that_is_answered_by_another_claim(north: str, answered: str) -> None:
    """An exact tenant gets decoys, or a private one none."""

    class Lying(CoinedWorld):
        def rules_of(self, tenant: str) -> Policy:
            return self.manifest.policy.under(answered) if tenant == "north" else self.manifest.rules(tenant)

    world = Lying()
    world.commit(claims={"north": north} if north != UNTIL_DELIVERED else {"south": EXACT})
    world.queries()
    world.close()
    refused(world, 8, "does not hold")

    honest = Manifest.rules

    def lying(made: Manifest, tenant: str) -> Policy:
        return made.policy.under(answered) if tenant == "north" else honest(made, tenant)

    def stated(rules: Policy, *given: Any, **named: Any) -> Statement:
        north_asks = rules.claim == north
        return statement_of(world.manifest.policy.under(answered) if north_asks else rules, *given, **named)

    with without(Check(proofs, "statement_of", stated)):
        accepted(world)


def test_columns_of_a_tenant_lie_under_the_key_of_its_claim() -> None:
    """Exact columns under the thinning key: records of them would not open under the attestation key."""

    class Swapped(CoinedWorld):
        def unplaced(self) -> dict[str, Tenant]:
            return dict(self.placed)

    world = Swapped()
    world.commit(claims={"north": EXACT})
    world.close()
    refused(world, 4, "index of tenant 'north'")
    with without(checks.COLUMNS):
        accepted(world)


def test_an_exact_tenant_is_not_thinned_and_a_coined_one_is() -> None:
    for claims, thinned in (({"north": EXACT}, ("north", "south")), (None, ("south",))):
        world = CoinedWorld()
        world.commit(claims=claims)
        entries = tuple(world.thinned_index(name)[1].entry(name) for name in thinned)
        world.put_thinning(*entries)
        world.close()
        refused(world, 5, "not those of the manifest's tenants with a coin")


# --- 3. manifests ----------------------------------------------------------------------------------------------------


def claimed_as(**claims: str) -> Callable[[Manifest], Manifest]:
    def change(made: Manifest) -> Manifest:
        return replace(made, tenants=tuple(replace(one, claim=claims.get(one.tenant, "")) for one in made.tenants))

    return change


@pytest.mark.parametrize(
    ("change", "why", "check"),
    [
        (claimed_as(north=UNTIL_DELIVERED), "is none below the policy's", checks.LOWER_CLAIM),
        (claimed_as(north="answers"), "is none below the policy's", checks.LOWER_CLAIM),
        (claimed_as(north="everything"), "is none below the policy's", checks.LOWER_CLAIM),
        (claimed_as(north=EXACT, south=UNSEEN), "no tenant has the policy's claim", checks.HIGHEST_CLAIM),
    ],
)
def test_a_manifest_whose_tenants_claim_what_its_policy_does_not_allow(
    change: Callable[[Manifest], Manifest], why: str, check: checks.Removable
) -> None:
    world = CoinedWorld()
    world.enter_manifest()
    made = change(world.manifest)
    with pytest.raises(CommitmentError, match=why):
        Manifest.decode(made.encode())
    with without(check):
        assert Manifest.decode(made.encode()) == made


@pytest.mark.parametrize("claim", [EXACT, "every-list"])
def test_no_claim_is_below_exact_and_none_below_one_of_noise(claim: str) -> None:
    rules = of_claim(EXACT) if claim == EXACT else replace(policy(), claim=claim)
    with pytest.raises(PolicyError, match="those below it are none"):
        rules.under(UNSEEN)


# --- 4. what a verdict says ------------------------------------------------------------------------------------------


def claims_of(claim: str = EXACT) -> tuple[Claimed, ...]:
    return accepted(mixed(claim)).claims


@pytest.mark.parametrize(
    ("change", "why", "check"),
    [
        (lambda weak, strong: (strong, weak), "the weakest first", checks.CLAIMS_IN_ORDER),
        (lambda weak, _: (weak, replace(weak, tenants=("south",))), "the weakest first", checks.CLAIMS_IN_ORDER),
        (lambda weak, strong: (weak, replace(strong, tenants=())), "each names its tenants", checks.TENANTS_NAMED),
        (lambda weak, strong: (weak, replace(strong, tenants=("north",))), "one claim", checks.TENANTS_NAMED),
        (lambda weak, strong: (strong,), "names none", checks.ONE_CLAIM_NAMES_NONE),
    ],
)
def test_claims_of_a_verdict_that_do_not_fit(
    change: Callable[[Claimed, Claimed], tuple[Claimed, ...]], why: str, check: checks.Removable
) -> None:
    made = change(*claims_of())
    with pytest.raises(EncodingError, match=why):
        messages.check_together(made)
    with without(check):
        messages.check_together(made)


def test_names_of_tenants_make_no_field_and_no_tenant_of_their_own() -> None:
    """A provider names its tenants: none of them is read as two, or as the next field."""
    weak, strong = claims_of()
    odd = ("a,until-delivered:b", "c%2Cd", "epsilon_audit=0")
    text = claims_text((replace(weak, tenants=odd), strong))
    assert text.count(" ") == claims_text((weak, strong)).count(" ")
    named = text.rpartition("tenants=")[2]
    assert len(named.split(",")) == 4
    assert "=" not in named
    assert len({claims_text((replace(weak, tenants=(one,)), strong)) for one in (*odd, "a%2Cuntil-delivered:b")}) == 4


def test_names_of_tenants_in_the_text_of_a_claim_are_one_tenant_each() -> None:
    """A tenant that a provider calls "east,north" does not promise north what it promises itself."""
    verdict = accepted(mixed())
    assert verdict.budget is not None
    budgets = (verdict.budget, replace(verdict.higher[0], tenants=("east,north",)))
    text = of_tenants(budgets, verdict.claims, ("south,west",))
    assert "For east%2Cnorth it is this: " in text
    assert "the tenants south%2Cwest have a lower claim" in text
    built = {"verdict": "PASS", "claims": [{"tenants": ["east,north"]}]}
    assert [names for names, _ in summary.of_each_claim(built)] == ["east%2Cnorth"]


def test_a_pass_is_enough_by_the_weakest_claim_or_by_that_of_a_named_tenant() -> None:
    verdict = accepted(mixed())
    enough = audit_command.not_enough
    assert "nothing is private" in enough(verdict, None, False)
    assert enough(verdict, None, False, EXACT) == ""
    assert "the claim exact of north" in enough(verdict, None, False, UNTIL_DELIVERED)
    assert enough(verdict, 2.0, False, tenant="south") == ""
    assert enough(verdict, 2.0, False, UNTIL_DELIVERED, "south") == ""
    assert "more than the 1 " in enough(verdict, 1.0, False, tenant="south")
    assert "nothing is private" in enough(verdict, 2.0, False, tenant="north")
    assert "the window's tenants are north, south" in enough(verdict, 2.0, False, tenant="east")
    alone = accepted(CoinedWorld.honest())
    assert enough(alone, 2.0, False, tenant="south") == ""


def tampered(verdict: Verdict, world: CoinedWorld, change: Callable[[dict[str, Any]], None]) -> bytes:
    """A statement that the auditor signed of other members."""
    built = document.build(verdict)
    reports = {"report.json": document.to_json(built), "report.html": page.render(built).encode()}
    change(built)
    return signed_verdict(verdict, built, reports, world.signer.verifier, world.auditor_key)


@pytest.mark.parametrize(
    "change",
    [
        lambda built: built["claims"][0].update(delta=0),
        lambda built: built["claims"][1].update(epsilon_audit=0.5),
        lambda built: built.update(line=built["line"].replace("exact:north", "unseen:north")),
        lambda built: built.update(line=built["line"].replace(",until-delivered:south", "")),
        lambda built: built.update(claim=built["claim"].partition(" For south")[0]),
    ],
)
def test_a_signed_verdict_whose_claims_contradict_each_other_is_not_read(
    change: Callable[[dict[str, Any]], None],
) -> None:
    world = mixed()
    verdict = accepted(world)
    read_verdict(tampered(verdict, world, lambda _: None), verdict.auditor)
    with pytest.raises(AuditError):
        read_verdict(tampered(verdict, world, change), verdict.auditor)


# --- 5. the policy file ----------------------------------------------------------------------------------------------

POLICY = """
claim = "until-delivered"
unseen = 1.451
lo = 0.2
ids = 5
return = 4.5
n_max = 6
k_max = 2
delta = "1/1000000"
{claims}
"""


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        (
            '[tenants.nobody]\nclaim = "exact"',
            "names a claim of tenant 'nobody', which has no documents: its tenants are",
        ),
        (
            '[tenants.acme]\nclaim = "every-list"',
            "cannot have the claim 'every-list': those below it are exact, or unseen",
        ),
        ("[tenants.acme]\nunseen = 3", "has a claim and nothing else"),
        ("tenants = 3", "stands in a table"),
        ('[tenants]\nacme = "exact"', "stands in a table"),
        (
            '[tenants.acme]\nclaim = "exact"\n[tenants.globex]\nclaim = "unseen"',
            "every tenant has a claim below the policy's, which is until-delivered: let the policy have the highest of "
            "theirs, unseen",
        ),
    ],
)
def test_a_policy_file_that_names_claims_of_tenants_wrongly(claims: str, why: str, tmp_path: Path) -> None:
    with (
        closing(scene.open_provider(tmp_path / "provider", coins=True)) as provider,
        pytest.raises((PolicyError, CommitmentError), match=why),
    ):
        committing.commit(provider, POLICY.format(claims=claims).encode(), "w1", None)


def test_a_policy_file_names_claims_of_tenants_and_the_provider_says_what_that_means(tmp_path: Path) -> None:
    claims = '[tenants.acme]\nclaim = "exact"\n[tenants.globex]\nclaim = "until-delivered"'
    with closing(scene.open_provider(tmp_path / "provider", coins=True)) as provider:
        told = committing.commit(provider, POLICY.format(claims=claims).encode(), "w1", None)
        manifest, held = provider.journal.history.named("w1").manifest, status(provider)
    assert manifest.claims == {EXACT: ("acme",), UNTIL_DELIVERED: ("globex",)} == held.values["windows"][0]["claims"]
    assert "window w1: committed, claims exact (acme), until-delivered (globex), 0 records" in held.text
    assert told.values["tenants"] == {"acme": EXACT, "globex": UNTIL_DELIVERED}
    assert "tenant acme has the claim exact here, which is lower than the window's" in told.text
    assert tenant_claims(policy_values(POLICY.format(claims=claims).encode()), manifest.policy) == {"acme": EXACT}
    assert json.dumps(told.values)
