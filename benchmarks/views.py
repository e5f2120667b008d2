"""Every way to read one memory: accuracy, time and bytes, on one set of weights.

scikit-learn's digits (1,438 rows, 359 queries), `small_cnn`, 10 epochs, three seeds: mean accuracy
± standard deviation. The reductions read the same trained `SPMClassifier`; `knn` and the parametric
twin are trained with a linear head. Time is for the 359 queries as embeddings, without the encoder:
median over 20 rounds of the last seed. Bytes are what a view keeps besides the rows themselves.
The last column is the accuracy after 10 % of the rows were forgotten at random, without training.
"""

import time
from collections.abc import Callable

import numpy as np
import torch

from erasable import KNNClassifier, ParametricClassifier, SPMClassifier
from erasable.data import Split, load_digits
from erasable.training import Training

SEEDS, ROUNDS = (0, 1, 2), 20
SETTINGS = {"epochs": 10, "batch_size": 128}
VIEWS = {
    "prototypes": {"reduction": "prototypes"},
    "prototypes, plain similarity": {"reduction": "prototypes", "attention": "similarity"},
    "rows": {"reduction": "rows"},
    "neighbours, k = 256": {"reduction": "neighbours"},
    "neighbours, k = 16": {"reduction": "neighbours", "k": 16},
    "gaussian": {"reduction": "gaussian"},
}


def reading_ms(model: SPMClassifier | KNNClassifier, embeddings: torch.Tensor) -> float:
    """Return the median time to read the memory for all embeddings."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        model._reader().log_probabilities(iter([embeddings]), None)
        times.append(time.perf_counter() - start)
    return 1000 * float(np.median(times))


def kept_bytes(name: str, model: SPMClassifier | KNNClassifier) -> int:
    """Return what a view keeps besides the rows."""
    classes, dim = len(model.classes_), model.memory.dim
    sums = classes * dim * (8 + 8)  # int64 sums and float64 means, kept for every memory
    return sums + (8 * dim * dim + 8 * dim * classes if name == "gaussian" else 0)


def evaluate(seed: int, train: Split, test: Split) -> dict[str, tuple[float, float, float, int]]:
    """Return accuracy, accuracy after forgetting, time and bytes per view, for one seed."""
    spm = SPMClassifier("small_cnn", random_state=seed, **SETTINGS)
    spm.fit(train.X, train.y, ids=train.ids)
    how = Training(support_size=512)
    graph = SPMClassifier(
        "small_cnn", set_encoder="graph", training=how, random_state=seed, **SETTINGS
    ).fit(train.X, train.y, ids=train.ids)
    knn = KNNClassifier("small_cnn", random_state=seed, **SETTINGS)
    knn.fit(train.X, train.y, ids=train.ids)
    twin = ParametricClassifier("small_cnn", random_state=seed, **SETTINGS).fit(train.X, train.y)
    default = {"reduction": "prototypes", "attention": "learnt", "k": 256}
    cases: dict[str, Callable[[], SPMClassifier | KNNClassifier]] = {
        name: lambda change=change: spm.set_params(**{**default, **change})
        for name, change in VIEWS.items()
    }
    cases |= {"prototypes of the graph encoder": lambda: graph, "knn, k = 50": lambda: knn}
    gone = np.random.default_rng(seed).permutation(train.ids)[: len(train) // 10].tolist()
    found = {}
    for name, choose in cases.items():
        model = choose()
        embeddings = torch.from_numpy(model.embed(test.X))
        found[name] = [model.score(test.X, test.y), reading_ms(model, embeddings)]
        found[name].append(kept_bytes(name, model))
    for model in (spm, graph, knn):
        model.forget(ids=gone)
    for name, choose in cases.items():
        found[name].append(choose().score(test.X, test.y))
    found["parametric twin"] = [twin.score(test.X, test.y), None, None, None]
    return found


def measure() -> list[str]:
    """Return the lines of a Markdown table."""
    train, test = load_digits()
    runs = [evaluate(seed, train, test) for seed in SEEDS]
    lines = [
        "| view | accuracy % | ms for 359 queries | KiB kept | accuracy % with 10 % forgotten |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in runs[0]:
        accuracy = np.array([run[name][0] for run in runs]) * 100
        cells = [f"{accuracy.mean():.1f} ± {accuracy.std(ddof=1):.1f}"]
        if runs[-1][name][1] is None:
            cells += ["", "", ""]
        else:
            after = np.array([run[name][3] for run in runs]) * 100
            cells += [f"{runs[-1][name][1]:.1f}", f"{runs[-1][name][2] / 1024:.0f}"]
            cells += [f"{after.mean():.1f} ± {after.std(ddof=1):.1f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    print("\n".join(measure()))
