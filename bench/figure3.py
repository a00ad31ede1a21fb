# SPDX-License-Identifier: GPL-3.0-or-later
"""Figure 3: what accounts see behind an ANN index, and what the noisy score of the planted slot holds.  Paper,
section 4.5.

``python -m bench.paper --only figure-3`` writes bench/results/figure3.json and .png.  Without a corpus at hand it
makes unit vectors at random, with a target (probe score 1) and a decoy at the paper's score gap.  The variance of their
i-th coordinate falls as a power of i, as that of text embeddings does along its principal components (both spectra are
measured and printed, :func:`spectrum`); uniform vectors would have no near neighbours.  ``--corpus beir:FOLDER`` embeds
a real corpus.  HNSW (M 64, efConstruction 200, efSearch 128, by faiss) picks candidates by clean scores, and noise is
added to those only: a simulation of the paper's law (:mod:`bench.attacks.channels`).  That is not noise-then-select,
and not what ragseal certifies: the third panel is the same attack where every slot of the index gets noise.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.attacks.adversaries import Coalition, hit_count, pooled_mean
from bench.attacks.channels import HitChannel, ScoreChannel
from bench.attacks.roc import delong
from bench.calibration import FULL_SCALE, KS, paper_sigma, predicted_auc
from bench.experiment import Cell, run, table
from bench.plots import Panel, auc_against_k
from ragseal.embedder import load_embedder, quantise
from ragseal.prover.commitment.corpora import open_corpus
from ragseal.runtime.terminal import progress_bars

Vectors = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

DIMENSION, K, N, GAP = 384, 5, 200, 0.133
FALL = 0.8  #: the variance of a synthetic coordinate i is proportional to i^-FALL
NEIGHBOURS, BUILD_EF, SEARCH_EF = 64, 200, 128
ROWS = 8192  #: vectors handled at a time
EPSILONS = (4, 8, 16)
SURFACES = ("released ids, HNSW", "noisy score of the slot", "released ids, noise over every slot")
PAPER = {(SURFACES[0], 16, 1): 0.500, (SURFACES[0], 16, 20): 0.539,
         (SURFACES[1], 16, 1): 0.508, (SURFACES[1], 16, 20): 0.582}  # fmt: skip


def corpus_vectors(corpus: str, size: int, rng: np.random.Generator, embedder: str) -> Vectors:
    """Unit vectors, float32, of a synthetic corpus or of the first ``size`` documents of a real one."""
    if corpus == "synthetic":
        made = rng.standard_normal((size, DIMENSION), dtype=np.float32)
        made *= np.arange(1, DIMENSION + 1, dtype=np.float32) ** np.float32(-FALL / 2)
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        return made
    texts = [document.text for document, _ in zip(open_corpus(corpus), range(size), strict=False)]
    return np.asarray(load_embedder(embedder).embed(texts), dtype=np.float32)


def spectrum(vectors: Vectors) -> dict[str, float]:
    """How the variance of a corpus is spread over its principal components.

    Returns:
        ``exponent`` of the power of the rank that the first half of the covariance's eigenvalues follow, by least
        squares in logarithms; ``participation`` ratio (sum of eigenvalues)^2 / sum of their squares: how many equal
        components would be as concentrated.
    """
    mean = vectors.mean(axis=0, dtype=np.float64)
    covariance = np.zeros((vectors.shape[1],) * 2)
    for at in range(0, len(vectors), ROWS):
        centred = vectors[at : at + ROWS] - mean
        covariance += centred.T @ centred / len(vectors)
    eigenvalues = np.linalg.eigvalsh(covariance)[::-1]
    half = len(eigenvalues) // 2
    exponent = np.polyfit(np.log(np.arange(1, half + 1)), np.log(eigenvalues[:half]), 1)[0]
    participation = eigenvalues.sum() ** 2 / np.square(eigenvalues).sum()
    return {"exponent": round(float(exponent), 2), "participation": round(float(participation), 1)}


def integer_scores(vectors: Vectors) -> Integers:
    """Integer clean scores of all vectors but the first, for the probe, which is the first: the planted target.

    Its replacement has the paper's score gap.  Both lead the corpus, so HNSW returns that slot in either world, and
    its rivals are the next best.
    """
    e = quantise(vectors[:1])[0].astype(np.int64)
    parts = [quantise(vectors[at : at + ROWS]).astype(np.int64) @ e for at in range(1, len(vectors), ROWS)]
    return np.concatenate(parts)


def candidates(vectors: Vectors) -> tuple[Integers, float]:
    """Which vectors but the first HNSW returns for the first, and how many seconds its index took to build."""
    import faiss

    index = faiss.IndexHNSWFlat(vectors.shape[1], NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = BUILD_EF
    began = time.perf_counter()
    with progress_bars() as bars:
        task = bars.add_task("HNSW", total=len(vectors) - 1)
        for at in range(1, len(vectors), ROWS):
            index.add(vectors[at : at + ROWS])
            bars.update(task, completed=index.ntotal)
    built = time.perf_counter() - began
    index.hnsw.efSearch = SEARCH_EF
    found = index.search(vectors[:1], SEARCH_EF - 1)[1][0]
    return found[found >= 0], round(built, 1)


def chances(scores: Integers, epsilon: float) -> tuple[float, float]:
    """Hit chance with the target and with the decoy, where the slot competes with ``scores``."""
    sigma, others = paper_sigma(epsilon, N) * FULL_SCALE, np.clip(scores, 0, FULL_SCALE)
    inside, outside = (
        HitChannel(np.concatenate([[planted], others]), K, sigma, 0).probability()
        for planted in (FULL_SCALE, round((1 - GAP) * FULL_SCALE))
    )
    return inside, outside


def experiment(
    out: Path, corpus: str, size: int, trials: int, seed: int = 1, embedder: str = "minilm"
) -> dict[str, Any]:
    """All surfaces, noise levels and coalition sizes."""
    setting = {"seed": seed, "trials": trials, "corpus": corpus, "size": size, "gap": GAP, "n": N}
    if corpus != "synthetic":
        setting["embedder"] = embedder

    @cache
    def vectors() -> Vectors:
        return corpus_vectors(corpus, size, np.random.default_rng(seed), embedder)

    @cache
    def rivals(surface: str) -> tuple[Integers, dict[str, Any]]:
        everyone = integer_scores(vectors())
        if surface == SURFACES[2]:
            return everyone, spectrum(vectors())
        found, seconds = candidates(vectors())
        return everyone[found], {"build_s": seconds}

    @cache
    def hit(surface: str, epsilon: float) -> tuple[float, float]:
        return chances(rivals(surface)[0], epsilon)

    def measure(cell: Cell, draws: np.random.Generator) -> dict[str, Any]:
        coalition = Coalition(cell["k"], N, trials)
        if cell["surface"] == SURFACES[1]:
            sigma = paper_sigma(cell["epsilon"], N)
            one = delong(*pooled_mean(ScoreChannel(sigma), coalition, GAP, 0, draws))
            return {"auc": one.auc, "se": one.se, "predicted": predicted_auc(GAP, sigma, coalition.queries)}
        inside, outside = hit(cell["surface"], cell["epsilon"])
        one = delong(*hit_count(inside, outside, coalition, draws))
        scores, about = rivals(cell["surface"])
        return {"auc": one.auc, "se": one.se, "hit_in": inside, "hit_out": outside, "rivals": len(scores), **about}

    cells = [{"surface": s, "epsilon": e, "k": k} for s in SURFACES for e in EPSILONS for k in KS]
    return run("Figure 3", setting, cells, measure, out)


def report(found: dict[str, Any]) -> str:
    """Paper beside measured, as Markdown."""
    rows = [
        (
            c["cell"]["surface"], c["cell"]["epsilon"], c["cell"]["k"],
            PAPER.get((c["cell"]["surface"], c["cell"]["epsilon"], c["cell"]["k"]), "-"), c["auc"], c["se"],
        )
        for c in found["cells"] if c["cell"]["k"] in (KS[0], KS[-1])
    ]  # fmt: skip
    size, corpus = found["cells"][-1]["rivals"] + 1, Path(found["setting"]["corpus"]).name
    built, spread = found["cells"][0]["build_s"], found["cells"][-1]
    return (
        table(("surface", "eps_acc", "k", "paper", "AUC", "s.e."), rows)
        + f"\n\nCorpus: {corpus}, {size:,} vectors, score gap {GAP} (paper: 10^6 MS MARCO passages, bge-small). Its "
        f"variance falls as rank^{spread['exponent']:g}, participation ratio {spread['participation']:g}. HNSW "
        f"took {built:,.0f} s to build."
    )


def plot(found: dict[str, Any], path: Path) -> None:
    note = "" if found["setting"]["corpus"] != "synthetic" else f"\nsynthetic, {found['setting']['size']:,} vectors"
    panels = []
    for surface in SURFACES:
        measured: dict[str, list[tuple[int, float, float]]] = {}
        for c in found["cells"]:
            if c["cell"]["surface"] == surface:
                label = f"eps_acc = {c['cell']['epsilon']}"
                measured.setdefault(label, []).append((c["cell"]["k"], c["auc"], c["se"]))
        panels.append(Panel(surface + note, measured))
    auc_against_k(path, panels)
