# SPDX-License-Identifier: GPL-3.0-or-later
"""Every check that an attack test may remove is there to be removed.

A guard is named by the text of its error.  Where that text is reworded, the attack tests would fail late and one by
one; this test is quick and names them all.
"""

from __future__ import annotations

import pytest

from tests.attacks import ceremony_checks, checks, index_checks, turn_checks
from tests.attacks.removal import Both, Check, Guard

MODULES = (checks, ceremony_checks, index_checks, turn_checks)
REMOVABLE = {
    f"{module.__name__.rpartition('.')[2]}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, (Check, Guard, Both))
}


@pytest.mark.parametrize("name", REMOVABLE)
def test_a_check_can_be_removed(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        REMOVABLE[name].remove(patch)
