# SPDX-License-Identifier: GPL-3.0-or-later
"""Figure 3: what accounts see behind an ANN index, and what the noisy score of the planted slot holds.  Paper,
section 4.5.

``python -m bench.figure3 --size 1000000`` writes bench/results/figure3.json and .png.  Without a corpus at hand it
makes unit vectors at random, with a target (probe score 1) and a decoy at the paper's score gap. Their i-th coordinate
has a variance proportional to 1/i, as the principal components of text embeddings nearly have (MiniLM on SciFact: the
exponent is -1.1, the participation ratio 29, here 26); uniform ones would have no near neighbours. ``--corpus
beir:FOLDER`` embeds a real one.  HNSW (M 64, efConstruction 200, efSearch 128, by faiss) picks candidates by clean
scores, noise is added to those only.  That is not noise-then-select, and not what ragseal certifies: the third panel
is the same attack where every slot of the index gets noise.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench.attacks.adversaries import Coalition, hit_count, pooled_mean
from bench.attacks.channels import HitChannel, ScoreChannel, mechanism_class
from bench.attacks.roc import delong
from bench.calibration import FULL_SCALE, KS, paper_sigma, predicted_auc, shift_for
from bench.experiment import RESULTS, Cell, run, table
from bench.plots import Panel, auc_against_k
from ragseal.embedder import load_embedder, quantise
from ragseal.prover.corpora import open_corpus

DIMENSION, K, N, GAP = 384, 5, 200, 0.133
NEIGHBOURS, BUILD_EF, SEARCH_EF = 64, 200, 128
EPSILONS = (4, 8, 16)
CHUNK = 18
SURFACES = ("released ids, HNSW", "noisy score of the slot", "released ids, noise over every slot")
PAPER = {(SURFACES[0], 16, 1): 0.500, (SURFACES[0], 16, 20): 0.539,
         (SURFACES[1], 16, 1): 0.508, (SURFACES[1], 16, 20): 0.582}  # fmt: skip


def corpus_vectors(corpus: str, size: int, rng: np.random.Generator, embedder: str) -> np.ndarray[Any, Any]:
    """Unit vectors, float32, of a synthetic corpus or of the first ``size`` documents of a real one."""
    if corpus == "synthetic":
        made = rng.standard_normal((size, DIMENSION), dtype=np.float32)
        made /= np.sqrt(np.arange(1, DIMENSION + 1, dtype=np.float32))
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        return made
    texts = [document.text for document, _ in zip(open_corpus(corpus), range(size), strict=False)]
    return np.asarray(load_embedder(embedder).embed(texts), dtype=np.float32)


def rivals_of(vectors: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Integer clean scores that the planted slot competes with: HNSW's candidates, and every other slot's.

    The first vector is the target and the probe; its replacement has the paper's score gap.  Both lead the corpus, so
    HNSW returns that slot in either world, and its rivals are the next best.
    """
    import faiss

    probe = vectors[0]

    began = time.perf_counter()
    index = faiss.IndexHNSWFlat(vectors.shape[1], NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = BUILD_EF
    index.add(vectors[1:])
    built = time.perf_counter() - began
    index.hnsw.efSearch = SEARCH_EF
    found = index.search(probe[None], SEARCH_EF - 1)[1][0]
    e = quantise(probe[None])[0].astype(np.int64)

    def integers(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        parts = [quantise(rows[at : at + 8192]).astype(np.int64) @ e for at in range(0, len(rows), 8192)]
        return np.concatenate(parts)

    everyone = integers(vectors[1:])
    return {SURFACES[0]: everyone[found[found >= 0]], SURFACES[2]: everyone, "build_s": round(built, 1)}


def chances(scores: np.ndarray[Any, Any], epsilon: float) -> tuple[float, float]:
    """Hit chance with the target and with the decoy, where the slot competes with ``scores``."""
    cls = mechanism_class_for(len(scores) + 1)
    gain = max(1, round(shift_for(ScoreChannel(cls.law, cls.s), paper_sigma(epsilon, N)) / FULL_SCALE))
    padded = np.zeros(cls.N - 1 - len(scores), dtype=np.int64)  # empty slots score 0 and take part
    out = []
    for planted in (FULL_SCALE, round((1 - GAP) * FULL_SCALE)):
        w = gain * np.concatenate([[planted], scores, padded])
        out.append(HitChannel(cls, w, gain * FULL_SCALE, 0).probability(nodes=4))
    return out[0], out[1]


def mechanism_class_for(slots: int) -> Any:
    """The smallest class of 16-slot elements that holds so many slots."""
    q = 8
    m = 8 if slots < 1 << 14 else 16
    return mechanism_class(-(-slots // q) * q, K, m=m, c=CHUNK, s=CHUNK)


def experiment(
    out: Path, corpus: str, size: int, trials: int, seed: int = 1, embedder: str = "minilm"
) -> dict[str, Any]:
    """All surfaces, noise levels and coalition sizes."""
    setting = {"seed": seed, "trials": trials, "corpus": corpus, "size": size, "gap": GAP, "n": N}
    if corpus != "synthetic":
        setting["embedder"] = embedder

    @cache
    def rivals() -> dict[str, Any]:
        return rivals_of(corpus_vectors(corpus, size, np.random.default_rng(seed), embedder))

    @cache
    def hit(surface: str, epsilon: float) -> tuple[float, float]:
        return chances(rivals()[surface], epsilon)

    def measure(cell: Cell, draws: np.random.Generator) -> dict[str, Any]:
        coalition = Coalition(cell["k"], N, trials)
        if cell["surface"] == SURFACES[1]:
            channel = ScoreChannel("gaussian", CHUNK)
            gain = max(1, round(shift_for(channel, paper_sigma(cell["epsilon"], N)) / FULL_SCALE))
            shift = gain * round(GAP * FULL_SCALE)
            one = delong(*pooled_mean(channel, coalition, shift, 0, draws))
            return {"auc": one.auc, "se": one.se,
                    "predicted": predicted_auc(shift, channel.deviation, coalition.queries)}  # fmt: skip
        inside, outside = hit(cell["surface"], cell["epsilon"])
        one = delong(*hit_count(inside, outside, coalition, draws))
        return {"auc": one.auc, "se": one.se, "hit_in": inside, "hit_out": outside,
                "rivals": len(rivals()[cell["surface"]]), "build_s": rivals()["build_s"]}  # fmt: skip

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
    size, corpus = found["setting"]["size"], found["setting"]["corpus"]
    return (
        table(("surface", "eps_acc", "k", "paper", "AUC", "s.e."), rows)
        + f"\n\nCorpus: {corpus}, {size:,} vectors, score gap {GAP} (paper: 10^6 MS MARCO passages, bge-small)."
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


@click.command()
@click.option("--quick", is_flag=True, help="2,000 vectors, fewer trials.")
@click.option("--corpus", default="synthetic", show_default=True, help="synthetic, or beir:FOLDER, jsonl:FILE.")
@click.option("--size", default=100_000, show_default=True, help="Vectors; the paper's 1000000 take about an hour.")
@click.option("--embedder", default="minilm", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS / "figure3.json", show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(quick: bool, corpus: str, size: int, embedder: str, out: Path, seed: int) -> None:
    """Figure 3: an ANN index in front of the noise, the noisy score channel, and noise over every slot."""
    size, trials = (min(size, 2_000), 500) if quick else (size, 2_000)
    found = experiment(out, corpus, size, trials, seed, embedder)
    plot(found, out.with_suffix(".png"))
    click.echo(report(found))


if __name__ == "__main__":
    main()
