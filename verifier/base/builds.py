# SPDX-License-Identifier: GPL-3.0-or-later
"""The circuits of this installation: classes of attestation, and sizes of the other circuits, with their digests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from ragseal.circuits.circuit import Shape, class_digest, load_classes, thinning_classes
from ragseal.kernel.classes import AttestationClass, removed
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.estimate_class import CLASSES, EstimateClass
from ragseal.kernel.thinning_class import ThinningClass

C = TypeVar("C")
Builds = Mapping[str, tuple[C, bytes]]  #: name -> class of a circuit as it is built here, digest


class _Classes(Mapping[str, tuple[AttestationClass, bytes]]):
    """Classes with their digests, each computed when asked for: all of them take seconds, and an audit needs one."""

    def __init__(self) -> None:
        self._classes = load_classes()

    def __getitem__(self, name: str) -> tuple[AttestationClass, bytes]:
        cls = self._classes[name]
        return cls, class_digest(cls)

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


def class_build() -> Builds[AttestationClass]:
    """The circuit classes of this installation with their digests."""
    return _Classes()


def estimate_build() -> Builds[EstimateClass]:
    """The sizes of the estimate's circuit of this installation with their digests."""
    return {name: (cls, class_digest(cls)) for name, cls in CLASSES.items()}


def thinning_build() -> Builds[ThinningClass]:
    """The sizes of the thinning's circuit of this installation with their digests."""
    return {name: (cls, class_digest(cls)) for name, cls in thinning_classes().items()}


def find_shape(name: str) -> tuple[Shape, bytes]:
    """A circuit class or a size of one of the other circuits.  Raises CommitmentError: names the classes there are."""
    for sizes in (CLASSES, thinning_classes()):
        if name in sizes:
            return sizes[name], class_digest(sizes[name])
    return find_class(class_build(), name)


def find_class(classes: Builds[AttestationClass], name: str) -> tuple[AttestationClass, bytes]:
    """A class of this build.  Raises CommitmentError: names the ones that there are."""
    if name not in classes:
        raise CommitmentError(f"no circuit class {name!r}: this build has {', '.join(sorted(classes))}{removed(name)}")
    return classes[name]
