# SPDX-License-Identifier: GPL-3.0-or-later
"""A further claim is one class and the form by which messages of it are decoded: nothing else knows how many there are.

Auditor, report, signed statement, log entry and provider are run with a claim that the product does not have.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from ragseal.accounting import claims
from ragseal.accounting.claims.claim import Claim
from ragseal.accounting.claims.every_list import EveryList
from ragseal.accounting.claims.until_delivered import UntilDelivered
from ragseal.kernel import claims as forms
from ragseal.kernel.claims import Form
from ragseal.kernel.errors import EncodingError, PolicyError
from ragseal.kernel.policy import EVERY_LIST, UNTIL_DELIVERED
from tests.claims import scene
from tests.claims.said import audited
from tests.claims.scene import Log, policy

TEXT = "This is another claim altogether."


class AnyAccounts(UntilDelivered):
    name = "for-any-accounts"

    def text(self, slots: int = 1) -> str:
        return TEXT


class SomeAccounts(EveryList):
    name = "for-k-accounts"

    def text(self, slots: int = 1) -> str:
        return TEXT


FURTHER = (
    (AnyAccounts(), Form(AnyAccounts.name, coin=True, returned=True), UNTIL_DELIVERED, "coalition=any queries=any"),
    (SomeAccounts(), Form(SomeAccounts.name, counted=True), EVERY_LIST, "coalition=2 queries=3"),
)


@pytest.mark.parametrize(("claim", "form", "like", "whom"), FURTHER, ids=[one[0].name for one in FURTHER])
def test_a_further_claim_needs_no_word_elsewhere(
    monkeypatch: pytest.MonkeyPatch, claim: Claim, form: Form, like: str, whom: str
) -> None:
    monkeypatch.setitem(forms.FORMS, form.name, form)
    monkeypatch.setitem(claims.CLAIMS, claim.name, claim)

    def log() -> Log:
        out = Log()
        out.window(replace(policy(like, 0), claim=claim.name), records=2)
        return out

    monkeypatch.setattr(scene, "PERIODS", {"further": (log, "w0")})
    told = audited("further")
    for one in (told["whole"], told["in part"]):
        assert f" claim={claim.name} {whom} " in one["line"]
        assert one["report"]["claim"].startswith(TEXT)
        assert one["statement"]["predicate"]["claimName"] == claim.name
        assert f"claim={claim.name}" in one["log entry"][1][1]
    assert told["provider"]["before"]["values"]["claim"] == claim.name
    assert told["provider"]["promises"] is None
    assert "an auditor will certify" in " ".join(told["provider"]["before"]["lines"])


@pytest.mark.parametrize("name", [one[0].name for one in FURTHER])
def test_without_its_form_no_decoder_takes_it_and_without_its_class_nobody_accounts_it(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    claim, form, like, _ = next(one for one in FURTHER if one[0].name == name)
    rules = replace(policy(like, 0), claim=name)
    with pytest.raises(
        PolicyError, match="the claim is one of every-list, until-delivered, answers, unseen, or exact, not"
    ):
        rules.validate()
    with pytest.raises((PolicyError, EncodingError), match="claim"):
        type(rules).decode(rules.encode())
    monkeypatch.setitem(forms.FORMS, form.name, form)
    rules.validate()
    with pytest.raises(PolicyError, match="one of every-list, until-delivered, answers, unseen, exact, not"):
        claims.claim_of(rules)
    monkeypatch.setitem(claims.CLAIMS, claim.name, claim)
    assert claims.claim_of(rules) is claim


def test_nothing_compares_a_claim_with_a_name() -> None:
    """Whoever needs to know asks the claim, or what messages of it hold: a further one would be forgotten there."""
    root = Path(__file__).parents[2]
    names = {"EVERY_LIST", "UNTIL_DELIVERED", "ANSWERS", "UNSEEN", "EXACT"}
    folders = ("accounting", "client", "demo", "kernel", "ledger", "prover", "runtime", "verifier")
    found = []
    for path in (one for folder in folders for one in sorted((root / folder).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Compare):
                parts = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
                texts = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
                if parts & names or texts & (set(forms.FORMS) - {"unseen"}):  # which is the name of a number, too
                    found.append(f"{path.relative_to(root)}:{node.lineno}: {ast.unparse(node)}")
    assert found == []
