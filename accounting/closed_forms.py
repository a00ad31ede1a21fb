# SPDX-License-Identifier: GPL-3.0-or-later
"""The origin's formulas, with every constant written out: printed beside an audited epsilon, never as one.

Names and numbers of equations are those of the paper.  None of these is a bound of what an auditor signs: the closed
form depends on an advertised epsilon instead of on the noise, leaves out a term, and holds at a larger delta than it
names; the Renyi grid is a bound, but a loose one.
"""

from __future__ import annotations

import math

from ragseal.accounting.ideal_curves import GeometricCurve
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import scale_of
from ragseal.kernel.params import GAUSSIAN

GRID = range(2, 65)  #: Renyi orders of the paper


def joint_epsilon(epsilon_account: float, k: int) -> float:
    """The paper's headline: sqrt(k) epsilon_acc."""
    return math.sqrt(k) * epsilon_account


def joint_epsilon_in_full(epsilon_account: float, k: int, delta: float) -> float:
    """Equation (3.2) with the second-order term that the headline drops: + k epsilon_acc^2 / ln(1 / delta_acc)."""
    return joint_epsilon(epsilon_account, k) + k * epsilon_account**2 / math.log(1 / delta)


def renyi_in_full(epsilon_account: float, k: int, delta: float) -> float:
    """Equation (3.6) at delta = delta_acc, with the residual of its proof (F.3), a quarter of (3.2)'s."""
    return joint_epsilon(epsilon_account, k) + k * epsilon_account**2 / (4 * math.log(1 / delta))


def audited_epsilon(epsilon_account: float, k_max: int, delta_account: float, delta_policy: float) -> float:
    """Equation (5.2) with its residual: delta_comp = delta_policy - k_max delta_acc is left for the composition.

    Raises:
        PolicyError: nothing is left; the paper's C_policy has delta_policy > k_max delta_acc.
    """
    left = delta_policy - k_max * delta_account
    if not 0 < left < 1:
        raise PolicyError(
            f"delta_policy = {delta_policy:g} leaves nothing beside {k_max} times {delta_account:g}: "
            "raise delta_policy or lower k_max"
        )
    log = math.log(1 / delta_account)
    return (
        joint_epsilon(epsilon_account, k_max) * math.sqrt(math.log(1 / left) / log) + k_max * epsilon_account**2 / log
    )


def least_advantage(epsilon_account: float, k: int, n: int, delta: float, gap: float = 1.0) -> float:
    """Equation (3.9): what the paper's attack gains at least over a guess, scaled by a score gap (its section 3.8)."""
    logs = math.log(1 / delta) * math.log(1.25 * n / delta)
    return gap * joint_epsilon(epsilon_account, k) / (4 * math.sqrt(2 * math.pi * logs))


def paper_sigma(epsilon_account: float, n: int, delta: float, sensitivity: float = 1.0) -> float:
    """Equation (3.4): sigma of one account's n queries by advanced composition, delta_q = delta_acc / n."""
    per_query = math.sqrt(2 * math.log(1.25 * n / delta))
    return sensitivity * per_query * math.sqrt(2 * n * math.log(1 / delta)) / epsilon_account


def renyi_sigma(epsilon_account: float, n: int, delta: float, sensitivity: float = 1.0) -> float:
    """Sigma of the Renyi route with the best real order and Mironov's conversion."""
    log = math.log(1 / delta)
    rho = (math.sqrt(log + epsilon_account) - math.sqrt(log)) ** 2
    return sensitivity * math.sqrt(n / (2 * rho))


def mironov(renyi: float, order: float, delta: float) -> float:
    """Epsilon of a Renyi bound: R + ln(1 / delta) / (order - 1)."""
    return renyi + math.log(1 / delta) / (order - 1)


def canonne(renyi: float, order: float, delta: float) -> float:
    """Epsilon of a Renyi bound, the tighter conversion of Canonne, Kamath and Steinke."""
    return renyi + (math.log(1 / delta) - math.log(order)) / (order - 1) + math.log1p(-1 / order)


def renyi_of(law: str, shift: int, order: float) -> float:
    """Renyi divergence of one query of the ideal law at a shift in table steps.

    Raises:
        PolicyError: an unknown law.
    """
    scale = scale_of(law)
    if law == GAUSSIAN:
        return order * (shift / scale) ** 2 / 2
    return GeometricCurve(shift, 1, scale).log_moment(order) / (order - 1)


def renyi_grid(law: str, shift: int, n: int, delta: float) -> tuple[float, int]:
    """(epsilon, order) of the paper's accountant: orders 2 to 64, Mironov's conversion, all noisy scores released."""
    return min((mironov(n * renyi_of(law, shift, order), order, delta), order) for order in GRID)
