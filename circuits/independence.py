# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a commitment over a key's points has one opening: its wires' columns are linearly independent.  SPEC A.9.

The base of wire i is ``IC_i = (beta u_i(tau) + alpha v_i(tau) + w_i(tau)) G``, u_i, v_i, w_i its columns in A, B and C
as polynomials.  Two openings of one commitment are a relation ``sum d_i IC_i = 0``.  If the columns (A_i; B_i; C_i) are
independent, such a relation is a root of a polynomial in tau, alpha and beta that is not zero, which nobody finds who
cannot compute discrete logarithms.  If they are not, it may be written down by anybody who reads the circuit.

snarkjs makes public inputs independent by a row of its own for each, ``wire * 0 = 0``.  Here only the constant, clear
inputs and blinder have one; for all others the circuit's rows must do, and that is checked on the circuit itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ragseal.circuits.r1cs import ConstraintSystem
from ragseal.kernel.errors import ProofError
from ragseal.kernel.params import R

Integers = npt.NDArray[np.int64]
Column = dict[int, int]  #: place (matrix and row as one number) -> coefficient, not zero


def check_independent(system: ConstraintSystem, kept: int, relations: Iterable[range]) -> None:
    """The columns of every relation, together with those of wires 0..``kept``, are linearly independent over F_r.

    Args:
        kept: public wires 1..kept have a row of their own, like the constant.
        relations: wires that one commitment is opened over, besides the blinder, which is one of those kept.

    Raises:
        ProofError: they are not, or the file is malformed.
    """
    places, holders = _places(system, kept)
    for wires in relations:
        together = np.zeros(system.wires, dtype=bool)
        together[: kept + 1] = True
        together[wires.start : wires.stop] = True
        left = _peeled(places, holders, together)
        dependent = _dependent(_columns(system, kept, left))
        if dependent is not None:
            raise ProofError(
                f"wire {left[dependent]} of the circuit is not bound: its column is a combination of those of other "
                "wires that are committed to with it, so that one commitment has many openings"
            )


def _places(system: ConstraintSystem, kept: int) -> tuple[Integers, Integers]:
    """Every place of a wire in the matrices, own rows included, and the wire."""
    height = system.rows + kept + 1
    own = np.arange(kept + 1)
    places = [matrix * height + rows for matrix, (rows, _) in enumerate(system.matrices)]
    wires = [terms["wire"].astype(np.int64) for _, terms in system.matrices]
    return np.concatenate([*places, system.rows + own]), np.concatenate([*wires, own])


def _peeled(places: Integers, holders: Integers, together: npt.NDArray[np.bool_]) -> list[int]:
    """What is left of wires ``together`` after all that alone hold some place have been taken away, again and again.

    A wire that alone holds a place has coefficient 0 in every relation between the columns, and so does, once it is
    gone, whatever then alone holds one.
    """
    remaining = together.copy()
    mine = remaining[holders]
    places, holders = np.unique(places[mine], return_inverse=True)[1], holders[mine]
    while len(places):
        alone = np.bincount(places)[places] == 1
        if not alone.any():
            break
        remaining[holders[alone]] = False
        staying = remaining[holders]
        places, holders = places[staying], holders[staying]
    return [int(wire) for wire in np.flatnonzero(remaining)]


def _columns(system: ConstraintSystem, kept: int, wires: Sequence[int]) -> list[Column]:
    """The columns of a few wires."""
    columns: dict[int, Column] = {wire: {} for wire in wires}
    height = system.rows + kept + 1
    for matrix, (rows, terms) in enumerate(system.matrices):
        for at in np.flatnonzero(np.isin(terms["wire"], wires)):
            column, place = columns[int(terms["wire"][at])], matrix * height + int(rows[at])
            column[place] = (column.get(place, 0) + int.from_bytes(terms["value"][at].tobytes(), "little")) % R
    for wire in range(kept + 1):
        if wire in columns:
            columns[wire][system.rows + wire] = 1
    return [{place: value for place, value in column.items() if value} for column in columns.values()]


def _dependent(columns: Sequence[Column]) -> int | None:
    """Index of the first column that is a combination of those before it, by elimination over F_r."""
    pivots: dict[int, Column] = {}  #: place -> a reduced column with 1 there
    for index, column in enumerate(columns):
        rest = dict(column)
        while rest:
            place = min(rest)
            pivot = pivots.get(place)
            if pivot is None:
                inverse = pow(rest[place], -1, R)
                pivots[place] = {at: value * inverse % R for at, value in rest.items()}
                break
            factor = rest[place]
            for at, value in pivot.items():
                changed = (rest.get(at, 0) - factor * value) % R
                if changed:
                    rest[at] = changed
                else:
                    rest.pop(at, None)
        else:
            return index
    return None
