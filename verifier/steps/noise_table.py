# SPDX-License-Identifier: GPL-3.0-or-later
"""Step 10: the noise table's rules, and the bound that the class's R rests on.  SPEC M.3, M.7, D.10."""

from __future__ import annotations

from ragseal.kernel import noise
from ragseal.kernel.classes import places_suffice
from ragseal.kernel.errors import (
    PolicyError,
)
from ragseal.verifier.evidence import (
    OWN_BUILD,
    OWN_MISTAKE,
    Undecided,
)
from ragseal.verifier.steps.manifest import Window
from ragseal.verifier.steps.recorder import Recorder, quiet


def check_noise(window: Window, say: Recorder = quiet) -> noise.NoiseTable:
    """Step 10: rules T1-T5 of the class's noise table in exact integers, and the bound that the class's R rests on.

    Raises:
        Undecided: this build's table or class does not hold; step 2 found that they are the policy's.
    """
    table = noise.build_table(window.cls.law)
    try:
        noise.check_table(table)
    except PolicyError as error:
        raise Undecided(str(error), OWN_MISTAKE) from None
    say(law=table.law, cut=table.cut, table_digest=table.digest(), rules="T1 T2 T3 T4 T5")
    if table.digest() != window.manifest.policy.table_digest:
        raise Undecided("T5: the policy's digest is not that of the canonical table", OWN_BUILD)
    if not places_suffice(window.cls, table):
        raise Undecided(
            f"class {window.cls.name!r}: R = {window.cls.R} places are not proven enough by its a and b, so how often "
            "queries overflow may depend on the index",
            "restore the parameter files of circuits/",
        )
    return table
