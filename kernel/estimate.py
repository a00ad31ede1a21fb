# SPDX-License-Identifier: GPL-3.0-or-later
"""The coalition estimate: records of a tenant that are too alike, and how many accounts they join.  SPEC C.1.

Records of one tenant and window are numbered by rank in ledger order, 0, 1, 2, ...  Two of them, at most tau apart, are
linked if <e_a, e_b> >= theta * 127^2.  Components are components of *records*; c is the largest number of distinct
accounts in one.  Links inside an account join components like any other: an account that asks A's question and B's
question in nearly the same words ties A to B.  A repeat is no rule of its own: its product is at least
:func:`ragseal.kernel.fixedpoint.least_repeat`, and a policy's theta lies no higher.

Everything is exact: products are integers, computed in floats that hold them.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ragseal.kernel.errors import EstimateError
from ragseal.kernel.params import SCORE_UNIT

Embeddings = npt.NDArray[np.int8]  #: (n, d), one row a record, in ledger order
Pairs = npt.NDArray[np.int64]  #: (m, 2), rows a < b
Link = tuple[int, int]  #: ranks a < b

FULL = SCORE_UNIT * SCORE_UNIT  #: product of two equal unit vectors
FULL_BLOCKS = 64  #: a tenant whose full certificate has no more blocks gets that one: about 600 records
ASKED_TOGETHER = 16  #: blocks of one ask: one opening of all products comes with each delivery
MAX_LINKS = 2_000_000  #: of a window that are listed one by one; tenants that would need more list spanning links

_ROWS, _COLUMNS = 1024, 4096  # of a tile: 16 MiB of products
_EXACT32, _EXACT64 = 1 << 24, 1 << 53
_CHUNK = 1 << 14


def link_threshold(theta: Fraction) -> int:
    """ceil(theta * 127^2): the smallest product that links.

    Raises:
        EstimateError: theta is not in (0, 1].
    """
    if not 0 < theta <= 1:
        raise EstimateError(f"theta is a cosine in (0, 1], not {theta}: correct the policy")
    return -(-theta.numerator * FULL // theta.denominator)


def find_links(embeddings: Embeddings, tau: int, threshold: int, most: int = MAX_LINKS) -> list[Link] | None:
    """All links (a, b), a < b <= a + tau, in increasing order, or None if there are more than ``most``.

    Time n * min(n, tau) * d, memory bounded.

    Raises:
        EstimateError: arguments out of range.
    """
    found: list[Pairs] = []
    count = 0
    for pairs in _linked(embeddings, tau, threshold):
        count += len(pairs)
        if count > most:
            return None
        found.append(pairs)
    links: list[Link] = [(a, b) for pairs in found for a, b in pairs.tolist()]
    links.sort()
    return links


def spanning_links(embeddings: Embeddings, tau: int, threshold: int) -> list[Link]:
    """At most n - 1 links with the same components as all of them, in increasing order.

    A few accounts that repeat one question make more links than anyone can list (700 repeats each by three make two
    million); a spanning forest says the same of c.

    Raises:
        EstimateError: arguments out of range.
    """
    labels = np.arange(len(embeddings))
    links = [link for pairs in _linked(embeddings, tau, threshold) for link in _merge(labels, pairs)]
    return sorted(links)


def _linked(embeddings: Embeddings, tau: int, threshold: int) -> Iterator[Pairs]:
    """Links tile by tile, in the same order every time."""
    if embeddings.dtype != np.int8 or embeddings.ndim != 2:
        raise EstimateError("embeddings are an int8 matrix with one row a record")
    if tau < 0:
        raise EstimateError(f"tau is a number of records, not {tau}: correct the policy")
    if threshold < 1:
        raise EstimateError("the threshold must be positive, or unlike queries would be linked")
    n = len(embeddings)
    tau = min(tau, n)
    # A sum of products never exceeds the product of the norms, however it is ordered (Cauchy and Schwarz).
    largest = int(np.einsum("ij,ij->i", embeddings, embeddings, dtype=np.int64).max(initial=0))
    if largest >= _EXACT64:
        raise EstimateError("embeddings have too many entries for exact products")
    single = largest < _EXACT32
    kind: np.dtype[np.floating] = np.dtype(np.float32 if single else np.float64)  # exact: sums < 2^24 or 2^53
    for top in range(0, n, _ROWS):
        rows = embeddings[top : top + _ROWS].astype(kind)
        last = min(n, top + len(rows) + tau)
        for left in range(top, last, _COLUMNS):
            columns = embeddings[left : min(left + _COLUMNS, last)].astype(kind)
            products = rows @ columns.T
            a, b = np.nonzero(products >= threshold)
            a, b = a + top, b + left
            fit = (a < b) & (b - a <= tau)
            if fit.any():
                yield np.stack([a[fit], b[fit]], axis=1)


def _root(parent: dict[int, int], x: int) -> int:
    """The representative of x; the way there is halved."""
    while x in parent:
        parent[x] = parent.get(parent[x], parent[x])
        x = parent[x]
    return x


def _merge(labels: Pairs, pairs: Pairs) -> list[Link]:
    """Join components along pairs and return those that joined two.  ``labels``: smallest record of each component."""
    joined: list[Link] = []
    for start in range(0, len(pairs), _CHUNK):
        chunk = pairs[start : start + _CHUNK]
        roots = labels[chunk]
        separate = roots[:, 0] != roots[:, 1]
        parent: dict[int, int] = {}
        for link, (x, y) in zip(chunk[separate].tolist(), roots[separate].tolist(), strict=True):
            x, y = _root(parent, x), _root(parent, y)
            if x != y:
                parent[max(x, y)] = min(x, y)
                joined.append((link[0], link[1]))
        if parent:
            new = np.arange(len(labels))
            for x in parent:
                new[x] = _root(parent, x)
            labels[:] = new[labels]
    return joined


@dataclass(frozen=True, slots=True)
class Cluster:
    """One component with more than one account."""

    accounts: tuple[str, ...]  #: distinct, sorted
    records: tuple[int, ...]  #: increasing ranks


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the links of one tenant say."""

    c: int  #: most accounts in a component; 0 without records, 1 if no two accounts are joined
    clusters: tuple[Cluster, ...]  #: components of more than one account: most accounts, then most records, come first

    @property
    def members(self) -> tuple[str, ...]:
        """Accounts of the components of c accounts, sorted; empty if c < 2."""
        return tuple(
            sorted({a for cluster in self.clusters if len(cluster.accounts) == self.c for a in cluster.accounts})
        )


def labels_of(records: int, links: Sequence[Link]) -> list[int]:
    """The smallest record of every record's component."""
    labels = np.arange(records)
    _merge(labels, np.array(links, dtype=np.int64).reshape(-1, 2))
    return labels.tolist()


def components(accounts: Sequence[str], links: Sequence[Link]) -> Estimate:
    """The estimate of one tenant: ``accounts[i]`` asked record i, ``links`` are all links or spanning ones.

    Raises:
        EstimateError: a link is not a < b among the records, or is listed twice.
    """
    n = len(accounts)
    if any(not 0 <= a < b < n for a, b in links):
        raise EstimateError("a link does not join two of the tenant's records, the earlier one first")
    if len(set(links)) != len(links):
        raise EstimateError("a link is listed twice")
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for record, label in enumerate(labels_of(n, links)):
        groups[label].append(record)
    found = [Cluster(tuple(sorted({accounts[i] for i in group})), tuple(group)) for group in groups.values()]
    clusters = [cluster for cluster in found if len(cluster.accounts) > 1]
    clusters.sort(key=lambda cluster: (-len(cluster.accounts), -len(cluster.records), cluster.records))
    return Estimate(max((len(cluster.accounts) for cluster in found), default=0), tuple(clusters))


# --- the certificate of all pairs ------------------------------------------------------------------------------------


def full_count(records: int, tau: int, n: int) -> int:
    """How many blocks a full certificate of blocks of n records has."""
    groups = -(-records // (n // 2))
    if groups < 2:
        return groups
    return sum(groups - step for step in range(1, min(_reach(tau, n // 2), groups - 1) + 1))


def full_blocks(records: int, tau: int, n: int) -> list[tuple[int, ...]]:
    """Blocks of at most n ranks that hold every pair within tau, and every record.  SPEC C.7.

    Nothing in them is the auditor's choice, so a provider can prove them before it is asked.
    """
    half = n // 2
    groups = [tuple(range(at, min(at + half, records))) for at in range(0, records, half)]
    if len(groups) < 2:
        return groups
    reach = _reach(tau, half)
    return [a + b for (i, a), (j, b) in itertools.combinations(enumerate(groups), 2) if j - i <= reach]


def _reach(tau: int, half: int) -> int:
    """How many groups further on still hold a record within tau; neighbouring groups always count, for their norms."""
    return max(1, (tau - 1) // half + 1)
