# SPDX-License-Identifier: GPL-3.0-or-later
"""A second implementation of the audited number, by somebody else: dp-accounting, where it is installed.  SPEC D.14.7.

It composes the ideal law's losses of the reported accountant for the same number of queries.  It is a check, never the
number: an audit must not print another epsilon where an optional package is missing.  It is an extra because it brings
scipy and more for one comparison, and the audit has two routes of its own.

Its traps, each of which gives a wrong number without a word: its discrete Gaussian joins no dots unless told to, which
costs half of epsilon at 10^4 compositions; a finer interval is not always better, since masses are second differences
over the interval; it drops tails of 10^-15, so that smaller deltas mean nothing; its accountant doubles a sensitivity
for replace-one neighbours in one class and not in another, so only the bare loss distribution is used here.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ragseal.accounting.audit import FULL, ORDERED, SET_LOSSES, SET_RENYI, EpsilonReport
from ragseal.accounting.ideal_channel import ideal_channel, one_query_curve
from ragseal.accounting.pld import Vector
from ragseal.kernel.noise import scale_of
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import GAUSSIAN

TOLERANCE = 5e-3  #: relative difference to the certified number; the other side's own error is below a thousandth
MOST_QUERIES = 5_000  #: beyond, its convolutions take minutes
LEAST_DELTA = 1e-12  #: it drops tails of 1e-15
_PLD, _PMF = "dp_accounting.pld.privacy_loss_distribution", "dp_accounting.pld.pld_pmf"
_RDP = "dp_accounting.rdp.rdp_privacy_accountant"
_NOT = "not asked: "
_POINTS = 4096  # of one query's losses on either side of 0


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """What the other implementation found."""

    implementation: str
    accountant: str
    epsilon: float | None  #: nothing where it was not asked
    agrees: bool | None  #: None where it was not asked
    remark: str = ""


def second_opinion(cls: NoiseClass, report: EpsilonReport) -> CrossCheck:
    """dp-accounting's epsilon for the reported accountant, or why there is none."""
    try:
        version = importlib.metadata.version("dp-accounting")
        for module in (_PLD, _PMF, _RDP):
            importlib.import_module(module)
    except ImportError:
        return CrossCheck(
            "dp-accounting",
            report.accountant,
            None,
            None,
            "not asked: not installed, pip install 'ragseal[accounting]'",
        )
    name = f"dp-accounting {version}"
    delta = report.delta.table
    if report.compositions > MOST_QUERIES or not LEAST_DELTA <= delta < 1:
        return CrossCheck(
            name, report.accountant, None, None, _NOT + f"beyond what it composes: {report.compositions} queries"
        )
    if report.delta_inf * 1000 >= delta:
        return CrossCheck(
            name, report.accountant, None, None, _NOT + "the table's end matters, which the ideal law lacks"
        )
    epsilon = _composed(cls, report, delta)
    return CrossCheck(name, report.accountant, epsilon, abs(epsilon - report.epsilon) <= TOLERANCE * report.epsilon)


@lru_cache(maxsize=64)
def _composed(cls: NoiseClass, report: EpsilonReport, delta: float) -> float:
    """Its epsilon."""
    if report.accountant == SET_RENYI:
        return _renyi(importlib.import_module(_RDP), cls, report, delta)
    pld, pmf = importlib.import_module(_PLD), importlib.import_module(_PMF)
    points, span = _curve(cls, report)
    one = pmf.create_pmf_pessimistic_connect_dots(span, np.arange(-_POINTS, _POINTS + 1), points)
    return float(pld.PrivacyLossDistribution(one).self_compose(report.compositions).get_epsilon_for_delta(delta))


def _renyi(rdp: Any, cls: NoiseClass, report: EpsilonReport, delta: float) -> float:
    """Its conversion, over its own choice of orders; the moments are the ideal channel's."""
    channel = ideal_channel(report.law, cls.N, cls.K, report.shift)
    orders = [1 + 10 ** (j / 40) for j in range(-160, 81)]
    moments = [report.n * channel.log_moment(a) / (a - 1) for a in orders]
    return float(rdp.compute_epsilon(orders, moments, delta)[0])


def _curve(cls: NoiseClass, report: EpsilonReport) -> tuple[Vector, float]:
    """(delta at k * span, k = -_POINTS .. _POINTS; span) of one query, from the ideal law."""
    shift = report.shift
    if report.accountant == SET_LOSSES:
        deltas, span = one_query_curve(report.law, cls.N, cls.K, shift)
        step = (deltas.size - 1) // _POINTS
        half, span = deltas[: _POINTS * step + 1 : step], span * step
    else:
        loss, mass = _losses(cls, report)
        span = float(loss.max()) / _POINTS
        at = span * np.arange(_POINTS + 1)
        order = np.argsort(loss)
        loss, mass = loss[order], mass[order]
        above = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]])
        other = np.concatenate([np.cumsum((mass * np.exp(-loss))[::-1])[::-1], [0.0]])
        first = np.searchsorted(loss, at, side="right")
        half = np.maximum(above[first] - np.exp(at) * other[first], 0.0)
    k = np.arange(_POINTS, 0, -1)
    return np.concatenate([1 - np.exp(-k * span) * (1 - half[:0:-1]), half]), span


def _losses(cls: NoiseClass, report: EpsilonReport) -> tuple[Vector, Vector]:
    """Positive losses of one query and their probabilities: all scores, or those that reach the threshold."""
    assert report.accountant in (FULL, ORDERED)
    channel = ideal_channel(report.law, cls.N, cls.K, report.shift)
    gaussian, scale = report.law == GAUSSIAN, scale_of(report.law)
    x = np.arange(report.shift // 2 + 1, (12 if gaussian else 96) * scale + report.shift)
    if gaussian:
        loss = (2 * x - report.shift) * report.shift / (2 * scale**2)
    else:
        loss = np.minimum(2 * x - report.shift, report.shift) / scale
    mass = np.exp(channel.log_p[channel.index(x - report.shift)])
    if report.accountant == ORDERED:
        mass = mass * channel.below[channel.index(x)]
    return loss.astype(np.float64), mass.astype(np.float64)
