# SPDX-License-Identifier: GPL-3.0-or-later
"""The coalition estimate: records of a tenant that are too alike, and how many accounts they join.  SPEC C.1.

Records of one tenant and window are numbered by rank in ledger order, 0, 1, 2, ...  Two are compared if they are at
most tau ranks or tau_time seconds apart, and then linked if <e_a, e_b> >= theta * 127^2.  Components are components of
*records*; c is the largest number of distinct accounts in one.  Links inside an account join components like any
other: an account that asks A's question and B's question in nearly the same words ties A to B.  A repeat is no rule of
its own: its product is at least :func:`ragseal.kernel.fixedpoint.least_repeat`, and a policy's theta lies no higher.

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
FULL_BLOCKS = 2500  #: a tenant whose full certificate has no more blocks gets that one: 10,000 records at tau = 1000
ASKED_TOGETHER = 16  #: blocks of one ask: one opening of all products comes with each delivery
MAX_LINKS = 2_000_000  #: of a window that are listed one by one; tenants that would need more list spanning links

_ROWS, _COLUMNS = 1024, 4096  # of a tile: 16 MiB of products
_EXACT32, _EXACT64 = 1 << 24, 1 << 53
_CHUNK = 1 << 14


@dataclass(frozen=True, slots=True)
class Reach:
    """Which records of a tenant are compared: rank a with a + 1, ..., last[a].  SPEC C.1."""

    last: tuple[int, ...]  #: of each rank; never below it, never decreasing

    @property
    def widest(self) -> int:
        """How many ranks two compared records are apart at most."""
        return max((b - a for a, b in enumerate(self.last)), default=0)

    @property
    def pairs(self) -> int:
        """How many pairs are compared."""
        return sum(self.last) - len(self.last) * (len(self.last) - 1) // 2

    def compares(self, a: int, b: int) -> bool:
        """Of ranks a < b."""
        return b <= self.last[a]


def reach_of(times: Sequence[int], tau: int, tau_time: int = 0) -> Reach:
    """Every two records that are at most ``tau`` ranks apart, and those that are at most ``tau_time`` seconds apart.

    Args:
        times: what the records state, in ledger order, in seconds.
        tau_time: 0: ranks alone count.

    Raises:
        EstimateError: times that decrease, or a negative tau.
    """
    if min(tau, tau_time) < 0:
        raise EstimateError(f"tau and tau_time are no negative numbers as {tau} and {tau_time}: correct the policy")
    stated = np.array(times, dtype=np.int64)
    if (np.diff(stated) < 0).any():
        raise EstimateError("the times of a tenant's records decrease in the ledger")
    last = np.minimum(np.arange(len(stated)) + tau, len(stated) - 1)
    if tau_time:
        last = np.maximum(last, np.searchsorted(stated, stated + tau_time, side="right") - 1)
    return Reach(tuple(last.tolist()))


def link_threshold(theta: Fraction) -> int:
    """ceil(theta * 127^2): the smallest product that links.

    Raises:
        EstimateError: theta is not in (0, 1].
    """
    if not 0 < theta <= 1:
        raise EstimateError(f"theta is a cosine in (0, 1], not {theta}: correct the policy")
    return -(-theta.numerator * FULL // theta.denominator)


def find_links(embeddings: Embeddings, reach: Reach, threshold: int, most: int = MAX_LINKS) -> list[Link] | None:
    """All links (a, b), a < b, in increasing order, or None if there are more than ``most``.

    Time (n + pairs that are compared) * d, memory bounded.

    Raises:
        EstimateError: arguments out of range.
    """
    found: list[Pairs] = []
    count = 0
    for pairs in _linked(embeddings, reach, threshold):
        count += len(pairs)
        if count > most:
            return None
        found.append(pairs)
    links: list[Link] = [(a, b) for pairs in found for a, b in pairs.tolist()]
    links.sort()
    return links


def spanning_links(embeddings: Embeddings, reach: Reach, threshold: int) -> list[Link]:
    """At most n - 1 links with the same components as all of them, in increasing order.

    A few accounts that repeat one question make more links than anyone can list (700 repeats each by three make two
    million); a spanning forest says the same of c.

    Raises:
        EstimateError: arguments out of range.
    """
    labels = np.arange(len(embeddings))
    links = [link for pairs in _linked(embeddings, reach, threshold) for link in _merge(labels, pairs)]
    return sorted(links)


def _linked(embeddings: Embeddings, reach: Reach, threshold: int) -> Iterator[Pairs]:
    """Links tile by tile, in the same order every time."""
    if embeddings.dtype != np.int8 or embeddings.ndim != 2:
        raise EstimateError("embeddings are an int8 matrix with one row a record")
    if len(reach.last) != len(embeddings):
        raise EstimateError(f"{len(embeddings)} records, and it is said of {len(reach.last)} which are compared")
    if threshold < 1:
        raise EstimateError("the threshold must be positive, or unlike queries would be linked")
    n = len(embeddings)
    furthest = np.array(reach.last, dtype=np.int64)
    # A sum of products never exceeds the product of the norms, however it is ordered (Cauchy and Schwarz).
    largest = int(np.einsum("ij,ij->i", embeddings, embeddings, dtype=np.int64).max(initial=0))
    if largest >= _EXACT64:
        raise EstimateError("embeddings have too many entries for exact products")
    single = largest < _EXACT32
    kind: np.dtype[np.floating] = np.dtype(np.float32 if single else np.float64)  # exact: sums < 2^24 or 2^53
    for top in range(0, n, _ROWS):
        rows = embeddings[top : top + _ROWS].astype(kind)
        last = reach.last[top + len(rows) - 1] + 1
        for left in range(top, last, _COLUMNS):
            columns = embeddings[left : min(left + _COLUMNS, last)].astype(kind)
            products = rows @ columns.T
            a, b = np.nonzero(products >= threshold)
            a, b = a + top, b + left
            fit = (a < b) & (b <= furthest[a])
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


GROUPS = 4  #: of neighbours in a block: with more or fewer, more blocks are needed for 600 to 10,000 records


def full_blocks(reach: Reach, n: int, most: int = FULL_BLOCKS) -> list[tuple[int, ...]] | None:
    """Blocks of at most n ranks that hold every pair that is compared, and every record; None: more than ``most``.

    Nothing in them is the auditor's choice, so a provider can prove them before it is asked.  Groups of neighbours
    stand for their records: the first two that have not met, in order, begin a block, and each further one is the first
    that meets the most others of the block for the first time.  SPEC C.7.
    """
    records, size = len(reach.last), max(1, n // GROUPS)
    groups = [range(at, min(at + size, records)) for at in range(0, records, size)]
    if not records:
        return []
    if records <= n:
        return [tuple(range(records))] if most else None
    # neighbours always meet: every record is in a block, for its norm
    far = [min(max(i + 1, reach.last[group[-1]] // size), len(groups) - 1) for i, group in enumerate(groups)]
    places = n // size
    if sum(far) - len(far) * (len(far) - 1) // 2 > most * (places * (places - 1) // 2):
        return None
    met: set[Link] = set()
    blocks: list[tuple[int, ...]] = []

    def meetings(one: int, others: Sequence[int]) -> int:
        links = [(min(one, other), max(one, other)) for other in others]
        return sum(j <= far[i] and (i, j) not in met for i, j in links)

    for i, furthest in enumerate(far):
        for j in range(i + 1, furthest + 1):
            if (i, j) in met:
                continue
            chosen = [i, j]
            while len(chosen) < places:
                new = {k: meetings(k, chosen) for k in range(i + 1, furthest + 1) if k not in chosen}
                best = max(new, key=new.__getitem__, default=i)
                if not new.get(best):
                    break
                chosen.append(best)
            chosen.sort()
            met.update(itertools.combinations(chosen, 2))
            blocks.append(tuple(rank for k in chosen for rank in groups[k]))
            if len(blocks) > most:
                return None
    return blocks
