# SPDX-License-Identifier: GPL-3.0-or-later
"""Step 10: the noise table's rules, and the bound that the class's R rests on.  SPEC M.3, M.7, D.10."""

from __future__ import annotations

from ragseal.kernel.classes import Table, places_suffice
from ragseal.kernel.errors import PolicyError
from ragseal.verifier.evidence.evidence import OWN_BUILD, OWN_MISTAKE, Undecided
from ragseal.verifier.steps.manifest import Window
from ragseal.verifier.steps.recorder import Recorder, quiet


def check_noise(window: Window, say: Recorder = quiet) -> Table:
    """Step 10: rules T1-T5 of the class's noise table in exact integers, and the bound that the class's R rests on.

    Decoys have no noise: what the policy binds is how likely each number of draws is.

    Raises:
        Undecided: this build's table or class does not hold; step 2 found that they are the policy's.
    """
    cls, policy = window.cls, window.manifest.policy
    digest = policy.table_digest
    try:
        tables = cls.tables(policy.decoy_rate)
    except PolicyError as error:
        raise Undecided(str(error), OWN_BUILD) from None
    for table in tables:
        try:
            table.check()
        except PolicyError as error:
            raise Undecided(str(error), OWN_MISTAKE) from None
    found = next((table for table in tables if table.digest() == digest), None)
    if found is None:
        raise Undecided("T5: the policy's digest is not that of the canonical table", OWN_BUILD)
    say(**found.evidence())
    if not places_suffice(cls, found):
        raise Undecided(
            f"class {cls.name!r}: its places are not proven enough, so how often queries overflow may depend "
            "on the index",
            "restore the parameter files of circuits/",
        )
    return found
