# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim "answers": what the keywords of all answers tell of one document.  SPEC Claims, D.22.

The number that is proven counts every record that the log shows in the period.  The one with the filter counts the
answers that one document takes part in: how many those are the provider says, in its policy and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction

from ragseal.accounting.answers import AnswersReport, answers_period
from ragseal.accounting.claims import notes
from ragseal.accounting.claims.bound import Around, Bound, Report, Values, best_guesses, finite, number, right
from ragseal.accounting.claims.claim import Claim, rounded
from ragseal.accounting.rounding import per_cent, per_cent_number, upward
from ragseal.accounting.spent import Spent
from ragseal.kernel.claims import ANSWERS
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.params import SCORE_UNIT
from ragseal.kernel.policy import Policy, rational
from ragseal.kernel.verdict import Claimed

TEXT = (
    "For a tenant's documents and the same documents without one, and any number of accounts that choose any number of "
    "questions from everything received: all that these accounts are sent, the texts of answers included, is "
    "(epsilon, delta)-indistinguishable, computationally (SIM-CDP). epsilon counts every answer of the period. The "
    "provider's word is that each proven histogram is that of the tenant's documents, of which one adds at most one to "
    "a keyword's count, that each text was written from question and keywords alone, and that the vocabulary comes "
    "from public data; so is what the number with the filter adds: that a document takes part in no more answers of "
    "the period than the policy says."
)

_DOES_NOT_SAY = (
    "That a histogram is of the tenant's documents, each answered alone and counted once: no column gives a histogram, "
    "so a provider could put into one what it likes, within the clip, and knows the noise when it does. What is proven "
    "is that the keywords are those of what it committed to, under noise that nobody chose.",
    "That a document takes part in no more answers than the policy's participations: the provider keeps that count, "
    "and no log shows it. Without its word the epsilon of all answers holds.",
    "That texts of answers were written from question and keywords alone. The keywords are proven; their text is not, "
    "and could repeat a document.",
    "That the words of the vocabulary come from public data. They were fixed before the window; words that were taken "
    "from documents would tell of them before anything is asked.",
    "How long an answer takes: it may grow with the documents that take part. Answers should leave on a fixed tick.",
    "A document of which copies or near copies stand in the index under other ids, or more parts than chunks_max: m of "
    "them count as m documents.",
    "That the answer is right.",
)
_SEVERAL_PARTS = (
    "A document of this period may stand in the index in up to {slots} parts under ids of their own, each of which "
    "takes part and is counted by itself; all numbers here are for such a document whole, and for one of a single part "
    "they say less than holds."
)
_OF_ANSWERS = (
    (
        "a count is clipped, and every keyword has the flag",
        notes.PROVEN + "digits are clipped; the step is this auditor's",
    ),
    ("a histogram changes no other input of its proof", "step 8: C_y opens over the score bases of the key"),
    (
        "every keyword carries noise, and the noise of every answer is fresh",
        notes.PROVEN + "noise of all N slots; steps 2, 6",
    ),
    ("always exactly K keywords, as a set", notes.PROVEN + "K winners, strictly increasing"),
    ("every answer counts", "step 6: records without gaps; step 11 counts those of all windows of the period"),
)


@dataclass(frozen=True, slots=True)
class AnswersBound(Bound):
    """Epsilon of all answers, and with the filter."""

    report: AnswersReport

    @property
    def epsilon(self) -> float:
        return self.report.plain.epsilon

    @property
    def queries(self) -> int:
        return self.report.plain.answers

    @property
    def accountant(self) -> str:
        return self.report.plain.accountant

    @property
    def disagreement(self) -> str:
        return "" if self.report.agree else "the table's and the ideal law's numbers disagree"

    @property
    def _routes(self) -> Values:
        one = self.report.alone
        return {
            "present, table": one.present,
            "present, ideal law": one.ideal[0],
            "absent, table": one.absent,
            "absent, ideal law": one.ideal[1],
        }

    def evidence(self, delta: Fraction) -> Values:
        found = self.report
        return {
            "answers": found.plain.answers,
            "epsilon_audit": found.plain.epsilon,
            "epsilon_filtered": found.filtered.epsilon,
            "participations": found.participations,
            "delta": float(delta),
            "delta_items": dict(found.items),
            **{f"epsilon_of_one_answer[{name}]": value for name, value in self._routes.items()},
        }

    def details(self, around: Around) -> Values:
        """Beside each number whose word it rests on."""
        found = self.report
        return {
            "answers": found.plain.answers,
            "epsilon_filtered": found.filtered.epsilon,
            "participations": found.participations,
            "epsilon_of_all_answers_rests_on": "the log's records and their proofs; that each histogram is of "
            "documents that add at most one to a count, that texts are written from question and keywords alone, and "
            "that the vocabulary is public, is the provider's word",
            "epsilon_filtered_rests_on": "besides, on the provider's word that a document takes part in no more "
            "answers",
            "plain": asdict(found.plain),
            "filtered": asdict(found.filtered),
            "one_answer": self._routes,
            "delta_items": dict(found.items),
        }

    def line(self, around: Around) -> str:
        found = self.report
        return (
            f" answers={found.plain.answers} epsilon_filtered={upward(found.filtered.epsilon)} "
            f"participations={found.participations}"
        )

    def conditions(self, policies: Sequence[Policy], late: bool) -> list[Values]:
        words, parts = (max(values) for values in zip(*((p.words_max, p.chunks_max) for p in policies), strict=True))
        one = "one document" if parts == 1 else f"each of up to {parts} parts of one document"
        said = (
            f"{one} adds at most one to a count and to at most {words} counts",
            f"{one} takes part in at most {self.report.participations} answers of the period (only the epsilon with "
            "the filter needs it)",
            "an answer's text is written from the question and the keywords alone, and how long it takes tells nothing",
            "the vocabulary's words come from public data",
        )
        return notes.held(_OF_ANSWERS) + notes.on_the_providers_word(said, "the provider's word (SPEC A.14.5)")

    def guess(self, account: float, delta: float, k_max: int) -> Values:
        """Of all answers of the period, whoever got them."""
        plain, filtered = right(self.epsilon, delta), right(self.report.filtered.epsilon, delta)
        said = (
            f"an attacker who guesses from even odds (50 %) whether a document is there is right at most "
            f"{per_cent(plain)} of the time with all answers of the period, texts included, and at most "
            f"{per_cent(filtered)} if the provider keeps its word on how many answers a document takes part in"
        )
        return best_guesses(account, delta, self, None, said, filtered_per_cent=per_cent_number(filtered))

    def foreseen(self) -> Values:
        return {
            "epsilon": finite(self.epsilon),
            "epsilon_filtered": finite(self.report.filtered.epsilon),
            "answers": self.queries,
            "participations": self.report.participations,
        }


class Answers(Claim):
    """The claim of a provider that hands out answers in words and no documents."""

    name = ANSWERS
    most_rows = None
    not_probed = "it hands out no document that a probe could look for"
    beside_epsilon = ("epsilon_filtered",)
    one_asks = "one account that asks all it may"

    def account(self, windows: Sequence[Spent], delta: Fraction) -> AnswersBound:
        return AnswersBound(answers_period(self.counted(windows), delta))

    def alone(self, policy: Policy, cls: AttestationClass, accounts: int) -> AnswersBound:
        """Of one account's n_max answers."""
        one = Spent("", policy, cls, policy.n_max, answered=policy.n_max)
        return self.account([one], rational(policy.delta, "delta"))

    def row(self, so_far: Sequence[Spent], new: Sequence[Spent], period: Sequence[Spent], delta: Fraction) -> Values:
        found = self.account(so_far, delta)
        return {"answered": found.queries, "epsilon": found.epsilon}

    # --- what a verdict says ---

    def text(self, slots: int = 1) -> str:
        return TEXT if slots == 1 else f"{TEXT} {_SEVERAL_PARTS.format(slots=slots)}"

    def symbols(self, claimed: Claimed, ends: str) -> str:
        return f"epsilon is {claimed.epsilon} and delta {claimed.delta}"

    def does_not_say(self) -> list[str]:
        left_out = (notes.DOES_NOT_SAY[0], *notes.ABOUT_COALITIONS)
        return [*_DOES_NOT_SAY, *(note for note in notes.DOES_NOT_SAY if note not in left_out)]

    def in_short(self) -> list[str]:
        """Texts and histograms are the provider's word, which stands beside it."""
        return list(notes.SHORT)

    def word(self, late: bool) -> frozenset[str]:
        return frozenset({"filter", "histograms", "texts", "vocabulary"})

    # --- how a report of it reads ---

    question = (
        "Somebody starts from even odds (50 %) that a document is there, and guesses from keywords and texts of "
        "answers whether it is. How often may the guess be right?"
    )

    def grades(self, report: Report) -> list[tuple[str, float, float]]:
        details, delta = report["epsilon"] or {}, float(report["delta"])
        alone = float(details["epsilon_of_one_account"])
        return [
            ("one account that asks all it may, in this window", alone, delta),
            ("any number of accounts, over the budget period", float(report["epsilon_audit"]), delta),
            ("the same, if the provider keeps its word on its filter", float(details["epsilon_filtered"]), delta),
        ]

    def headline(self, report: Report, found: tuple[str, str]) -> str:
        return (
            "An attacker who starts from even odds (50 %) guesses right, whether a document is there, in up to "
            f"{found[1]} of all cases with all answers of the period, texts included, in up to {found[0]} with all "
            "that one account may ask in this window."
        )

    def bounded(self, report: Report) -> str:
        details = report["epsilon"]
        one = "a document" if details.get("slots_of_a_document", 1) == 1 else "each part of a document"
        return (
            "Bounded is what any number of accounts that work together can tell from the keywords and texts of all "
            f"answers of the period about any one document of a tenant: epsilon {rounded(report['epsilon_audit'])}, "
            f"and {rounded(details['epsilon_filtered'])} if the provider keeps its word that {one} takes part in at "
            f"most {details.get('participations', '?')} answers."
        )

    # --- what a provider is told ---

    def spent_row(self, row: Values) -> Values:
        return {"window": row["window"], "answers": row["answered"], "epsilon": finite(row["epsilon"])}

    def spent_words(self, row: Values, asked: int) -> str:
        return (
            f": {row['answers']} answers and epsilon {number(row['epsilon'])} are spent, up to window {row['window']}"
        )

    def foreseen_words(self, values: Values) -> str:
        return (
            f"if every account asks all it may in this window, an auditor will certify epsilon "
            f"{number(values['epsilon'])} for all {values['answers']} answers, and print "
            f"{number(values['epsilon_filtered'])} beside it, by this provider's word that a document takes part in "
            f"at most {values['participations']}"
        )

    def terms_words(self, values: Report, policy: Policy, cls: AttestationClass, returned: Sequence[str]) -> list[str]:
        guess = values["attacker_guess"]
        return [
            *returned,
            f"a document takes part where its cosine is {policy.similarity / SCORE_UNIT**2:.3g} or more, in at most "
            f"{policy.participations} answers of the period, with at most {policy.words_max} keywords each: nobody can "
            "check that, and the verdict says so",
            f"from even odds an attacker guesses right, whether a document is there, in up to "
            f"{per_cent(guess['account'])} of all cases with one account (epsilon "
            f"{upward(float(Fraction(policy.epsilon_account)))} advertised), in up to {per_cent(guess['coalition'])} "
            "with all answers that the window allows",
        ]

    def too_little(
        self, policy: Policy, cls: AttestationClass, accounts: int, declared: Fraction, least: Fraction
    ) -> str:
        return (
            f"epsilon_account = {policy.epsilon_account} is less than {policy.n_max} answers give: {float(least):.6g}; "
            f'advertise at least {float(least):.6g} (or "auto"), or use a smaller gain or n_max'
        )
