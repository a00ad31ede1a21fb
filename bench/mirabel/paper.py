# SPDX-License-Identifier: GPL-3.0-or-later
"""What Mirabel's paper reports, on NFCorpus, SCIDOCS and TREC-COVID with BGE-M3 and Llama 3.2 3B, in this order."""

from __future__ import annotations

Three = tuple[float, float, float]

#: Table 1: mean p of the normality test, of all scores and without the largest.
NORMALITY = {"benign": (0.469, 0.400), "MBA": (0.027, 0.511), "S2MIA": (0.001, 0.293), "IA": (0.012, 0.226)}

#: Table 2, Mirabel.  Its columns are headed accuracy, F1, precision, recall, and so are its S2MIA and MBA rows; in the
#: IA rows only accuracy, precision, recall, F1 gives an F1 that follows from the other two, and they are taken so.
DETECTION: dict[str, dict[str, Three]] = {
    "S2MIA": {
        "accuracy": (0.844, 0.853, 0.880),
        "f1": (0.865, 0.871, 0.886),
        "precision": (0.762, 0.776, 0.846),
        "recall": (1.000, 0.992, 0.930),
    },
    "MBA": {
        "accuracy": (0.847, 0.855, 0.995),
        "f1": (0.867, 0.873, 0.995),
        "precision": (0.766, 0.775, 1.000),
        "recall": (1.000, 1.000, 0.990),
    },
    "IA": {
        "accuracy": (0.799, 0.827, 0.720),
        "precision": (0.750, 0.772, 0.744),
        "recall": (0.896, 0.928, 0.670),
        "f1": (0.817, 0.843, 0.705),
    },
}

#: Table 8: negatives are benign alone.
AGAINST_BENIGN: dict[str, dict[str, Three]] = {
    "S2MIA": {
        "accuracy": (0.876, 0.865, 0.970),
        "precision": (0.802, 0.791, 1.000),
        "recall": (1.000, 0.992, 0.940),
        "f1": (0.890, 0.880, 0.969),
    },
    "MBA": {
        "accuracy": (0.876, 0.869, 0.980),
        "precision": (0.802, 0.792, 1.000),
        "recall": (1.000, 1.000, 0.960),
        "f1": (0.890, 0.884, 0.980),
    },
    "IA": {
        "accuracy": (0.824, 0.816, 0.810),
        "precision": (0.783, 0.773, 1.000),
        "recall": (0.895, 0.894, 0.620),
        "f1": (0.835, 0.829, 0.765),
    },
}

#: Tables 4 and 5: adjusted accuracy and KS, without and with detect-and-hide.
ADJUSTED: dict[str, dict[str, Three]] = {
    "S2MIA": {"no guard": (0.188, 0.126, 0.119), "clean": (0.024, 0.006, 0.021)},
    "MBA": {"no guard": (0.377, 0.406, 0.313), "clean": (0.019, 0.101, 0.139)},
    "IA": {"no guard": (0.403, 0.380, 0.254), "clean": (0.008, 0.010, 0.083)},
}
KS: dict[str, dict[str, Three]] = {
    "S2MIA": {"no guard": (0.358, 0.195, 0.203), "clean": (0.057, 0.039, 0.043)},
    "MBA": {"no guard": (0.754, 0.813, 0.625), "clean": (0.038, 0.202, 0.283)},
    "IA": {"no guard": (0.805, 0.771, 0.555), "clean": (0.100, 0.081, 0.172)},
}

#: Table 3, on Natural Questions and TriviaQA.
UTILITY: dict[str, dict[str, tuple[float, float]]] = {
    "no guard": {"EM@5": (0.272, 0.730), "EM@20": (0.263, 0.725), "R@5": (0.222, 0.575), "R@20": (0.354, 0.705)},
    "clean": {"EM@5": (0.253, 0.700), "EM@20": (0.253, 0.725), "R@5": (0.172, 0.515), "R@20": (0.303, 0.675)},
}

#: Table 6: adjusted accuracy of DP-RAG at epsilon 2, without and with the guard.  Noise on tokens, not on retrieval.
COMPOSED: dict[str, dict[str, Three]] = {
    "S2MIA": {"list": (0.021, 0.004, 0.038), "list, returned": (0.020, 0.029, 0.024)},
    "MBA": {"list": (0.015, 0.040, 0.288), "list, returned": (0.010, 0.015, 0.004)},
    "IA": {"list": (0.004, 0.003, 0.174), "list, returned": (0.004, 0.018, 0.064)},
}
