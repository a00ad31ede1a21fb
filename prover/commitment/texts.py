# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be read of an index: in memory where it is little, else looked up in the database.  SPEC A.12.13."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from itertools import repeat

import numpy as np
import numpy.typing as npt

from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.slot_text import SlotText
from ragseal.prover.commitment.slots import TEXT, Slots, stored

IN_MEMORY = 1 << 26  #: bytes of texts of a version that are held in memory, so that answers do not look them up


class StoredTexts(Mapping[int, SlotText]):
    """What can be read of an index' slots, looked up whenever it is asked for: memory does not grow with texts.

    Once these rows are gone (the window is retired), nothing can be read any more.
    """

    def __init__(self, slots: Slots, filled: npt.NDArray[np.bool_]) -> None:
        """``filled``: one a slot, whether something is in it."""
        self._slots, self._filled = slots, filled

    def settle(self, slots: Slots) -> None:
        """From now on these rows are read, which hold the same."""
        self._slots = slots

    def __getitem__(self, slot: int) -> SlotText:
        found = self._slots.one(slot) if slot in self else None
        if found is None:
            raise KeyError(slot)
        return found

    def __contains__(self, slot: object) -> bool:
        return isinstance(slot, int) and 0 <= slot < len(self._filled) and bool(self._filled[slot])

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(self._filled).tolist())

    def __len__(self) -> int:
        return int(self._filled.sum())

    def items(self) -> ItemsView[int, SlotText]:
        return _Items(self)

    def values(self) -> ValuesView[SlotText]:
        return _Values(self)

    def in_order(self) -> Iterator[tuple[int, SlotText]]:
        """All of them, by slot; a part at a time is in memory."""
        for slot, *columns in self._slots.each(TEXT):
            yield slot, stored(*columns)


class _Items(ItemsView[int, SlotText]):
    def __init__(self, texts: StoredTexts) -> None:
        super().__init__(texts)
        self._texts = texts

    def __iter__(self) -> Iterator[tuple[int, SlotText]]:
        return self._texts.in_order()


class _Values(ValuesView[SlotText]):
    def __init__(self, texts: StoredTexts) -> None:
        super().__init__(texts)
        self._texts = texts

    def __iter__(self) -> Iterator[SlotText]:
        return (content for _, content in self._texts.in_order())


def load_texts(slots: Slots, capacity: int) -> Mapping[int, SlotText]:
    """By slot what can be read of an index: in memory, where it is not too much for that.

    Raises:
        CommitmentError: as :func:`ragseal.prover.commitment.slots.stored`; a slot does not fit.
    """
    if slots.size() <= IN_MEMORY:
        return {slot: stored(*columns) for slot, *columns in slots.each(TEXT)}
    filled = np.zeros(capacity, dtype=np.bool_)
    for slot, _ in slots.each("1"):
        if not 0 <= slot < capacity:
            raise CommitmentError(f"stored slot {slot} does not fit an index of {capacity}: restore a backup")
        filled[slot] = True
    return StoredTexts(slots, filled)


def settle(texts: Mapping[int, SlotText], slots: Slots) -> None:
    """Texts of an index that has just been stored are read from its own rows from now on."""
    if isinstance(texts, StoredTexts):
        texts.settle(slots)


def by_slot(texts: Mapping[int, SlotText], capacity: int) -> Iterator[SlotText | None]:
    """What every slot of an index holds, one after the other."""
    if not isinstance(texts, StoredTexts):
        yield from map(texts.get, range(capacity))
        return
    at = 0
    for slot, content in texts.in_order():
        yield from repeat(None, slot - at)
        yield content
        at = slot + 1
    yield from repeat(None, capacity - at)
