# SPDX-License-Identifier: GPL-3.0-or-later
"""A checklist of steps in parts, of which one that cannot be decided ends the asking, not the checking.  SPEC D.12.

A part says by what it calls which results it needs, and whether it asks the provider.  Once something is open the
provider is asked nothing more; what rests on results that are there is still checked: a lie that it shows is a FAIL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ragseal.kernel.errors import AuditError, ConfigurationError, TransportError
from ragseal.verifier.evidence.evidence import ASK_AGAIN, Refused, Undecided
from ragseal.verifier.outcome.outcome import FAILED, NOT_ASKED, NOT_REACHED, OK, OPEN, TITLES, Ending, Step
from ragseal.verifier.steps.log import Forked
from ragseal.verifier.steps.recorder import Recorder

T = TypeVar("T")

AWAY = "audit again when the provider answers, or with a larger --patience"
IN_SILENCE = "checked; while another step is open its numbers are no claim, and are not shown"
_WEIGHT = (NOT_ASKED, OK, NOT_REACHED, OPEN, FAILED)  #: the worst of a step's parts is what is said of the step


def ending_of(number: int, error: AuditError) -> Ending:
    """What an error at a step means: only a Refused is the provider's fault; whatever else there is, is no verdict."""
    if isinstance(error, Refused):
        evidence = {**error.evidence, "error": "Refused"}
        return Ending(number, str(error), evidence, failed=True, forked=isinstance(error, Forked))
    if isinstance(error, Undecided):
        return Ending(number, str(error), dict(error.evidence), error.way_out)
    kind = type(error).__name__
    if isinstance(error, TransportError):
        return Ending(number, str(error), {"error": kind}, AWAY)
    if isinstance(error, ConfigurationError):
        return Ending(number, str(error), {"error": kind}, "put that right in the auditor's folder or command line")
    return Ending(number, str(error), {"error": kind}, ASK_AGAIN)


class MissingError(Exception):
    """A part of a step needs a result that nothing came to, or a provider that is asked nothing more."""


class Got(Generic[T]):
    """The result of a part; ``()`` gives it, and where there is none ends the part that asked for it."""

    __slots__ = ("_results",)

    def __init__(self, *results: T) -> None:
        self._results = results

    def __call__(self) -> T:
        if not self._results:
            raise MissingError
        return self._results[0]

    def __bool__(self) -> bool:
        return bool(self._results)


@dataclass(slots=True)
class _Progress:
    """How far a step is: what its parts said, and the worst of how they ended."""

    status: str
    evidence: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    message: str = ""

    def ends(self, status: str, message: str = "") -> None:
        if _WEIGHT.index(status) < _WEIGHT.index(self.status):
            return
        self.status = status
        if message and message not in self.message:
            self.message = f"{self.message}; {message}" if self.message else message


class Checklist:
    """Runs parts of steps, in order, and keeps how far each step is."""

    def __init__(
        self, clock: Callable[[], float], progress: Callable[[int, str], None], deadline: float | None = None
    ) -> None:
        """``deadline``: by ``clock``, seconds; the provider is asked for nothing later."""
        self._clock = clock
        self._progress = progress
        self._deadline = deadline
        self.steps: dict[int, _Progress] = {}
        self.open: Ending | None = None  #: the first part that could not be decided

    def begin(self, number: int, status: str) -> None:
        """A step stands at a status until one of its parts ends worse."""
        self.steps[number] = _Progress(status)

    def shown(self) -> list[Step]:
        """The steps that were begun, as the report shows them."""
        return [
            Step(number, TITLES[number], one.status, one.evidence, one.seconds, one.message)
            for number, one in sorted(self.steps.items())
        ]

    def part(self, number: int, check: Callable[[Recorder], T], *, asks: bool = False, claims: bool = False) -> Got[T]:
        """A part of a step: a check that is given somewhere to say its evidence.

        Args:
            asks: whether it asks the provider for something.  Such a part begins only while nothing is open and the
                deadline has not passed.
            claims: whether what it says would be read as a claim.  Once something is open it checks in silence.

        Raises:
            Ending: the provider's signature shows that something does not hold.
        """
        step = self.steps.setdefault(number, _Progress(OK))
        begun = self._clock()
        said: dict[str, Any] = {}
        silent = claims and self.open is not None
        self._progress(number, TITLES[number])
        try:
            if asks:
                self.may_ask()
            found = Got(check(said.update))
            if silent:
                said.clear()
                step.ends(NOT_REACHED, IN_SILENCE)
            return found
        except MissingError:
            step.ends(NOT_REACHED, "checked only as far as what is at hand goes" if step.evidence or said else "")
        except AuditError as error:
            ending = ending_of(number, error)
            if silent and not ending.failed:
                said.clear()
            said.update(ending.evidence)
            ending.evidence = dict(said)
            step.ends(FAILED if ending.failed else OPEN, ending.message)
            if ending.failed:
                raise ending from None
            self.open = self.open or ending
        finally:
            step.evidence.update(said)
            step.seconds += self._clock() - begun
        return Got()

    def take_back(self, number: int) -> None:
        """What a step said is a claim no more, since something is open after all."""
        step = self.steps.get(number)
        if step is not None and step.status == OK:
            step.evidence.clear()
            step.ends(NOT_REACHED, IN_SILENCE)

    def may_ask(self) -> None:
        """The provider may be asked for something now.

        Raises:
            MissingError: something is open.
            Undecided: the deadline has passed.
        """
        if self.open is not None:
            raise MissingError
        if self._deadline is not None and self._clock() > self._deadline:
            raise Undecided("the audit's deadline has passed", "audit again with a larger --deadline")
