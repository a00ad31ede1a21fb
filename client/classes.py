# SPDX-License-Identifier: GPL-3.0-or-later
"""The circuit class that a policy names, from this installation's own parameter files, never from the provider."""

from __future__ import annotations

from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.kernel.classes import AttestationClass, removed
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.policy import Policy

_WAY_OUT = "install the version of ragseal that the provider runs"


def known_class(policy: Policy) -> AttestationClass:
    """The circuit class a policy names, from this installation's parameter files.

    Raises:
        PolicyError: unknown here, or other parameters or circuit sources under the same name.
    """
    cls = load_classes().get(policy.class_name)
    if cls is None:
        raise PolicyError(
            f"the window uses the circuit class {policy.class_name!r}, which this installation lacks: "
            f"{_WAY_OUT}{removed(policy.class_name)}"
        )
    if class_digest(cls) != policy.class_digest:
        raise PolicyError(
            f"the window's circuit class {policy.class_name!r} differs from this installation's: {_WAY_OUT}"
        )
    return cls
