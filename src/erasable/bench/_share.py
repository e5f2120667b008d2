"""Accuracy against the share of rows whose forgetting is exact.

The weights are trained on a part of the rows; the other rows are only remembered, so the weights
never saw them, and forgetting them is exact. The more rows are exact, the fewer there are to train
on.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from erasable.bench._runs import Run, Runs, data_settings, test_rows
from erasable.data import Dataset, Split
from erasable.errors import ArgumentError
from erasable.models import SPMClassifier, parameters_of, preset_settings, read_embedded
from erasable.training import input_shape
from erasable.typing import Ints

SHARES = (0.0, 0.5, 0.75, 0.9, 0.95)
"""Shares of the rows that are remembered only."""

_PRETRAIN = {"epochs": 5, "batch_size": 512, "learning_rate": 0.01}

Say = Callable[[str], None]


def run_share(
    data: Dataset,
    *,
    scale: str,
    seeds: list[int],
    runs: Runs,
    frozen: dict[str, Any] | None = None,
    say: Say = lambda _: None,
    verbose: bool = False,
) -> list[Run]:
    """Train on each part of the rows with each seed, remember the rest, and measure.

    Args:
        data: The data set; it needs test rows.
        scale: The preset of networks that are trained from scratch.
        seeds: Seeds of networks and parts.
        runs: Where finished runs and checkpoints are kept.
        frozen: Parameters of a public encoder that is not trained; only the comparison is then.
        say: Where remarks on the progress go.
        verbose: Show progress bars.
    """
    test = test_rows(data)
    if not seeds:
        raise ArgumentError("Expected at least one seed, but got none.")
    trained = preset_settings(scale, input_shape(data.train.X))
    if not trained["epochs"]:
        raise ArgumentError(f"Expected a preset that trains, but got {scale!r}.")
    if frozen is not None:
        trained = {k: v for k, v in frozen.items() if k != "embedding_cache"} | _PRETRAIN
    done: list[Run] = []
    for share in (*SHARES, 1.0) if frozen else SHARES:
        for seed in seeds:
            settings = {
                "table": "share",
                "data": data_settings(data),
                "preset": scale if frozen is None else None,
                "parameters": trained,
                "exact_share": share,
                "seed": seed,
            }

            def work(folder: Path, share: float = share, seed: int = seed) -> dict[str, Any]:
                parameters = _parameters(data.train, scale, frozen, folder, verbose=verbose)
                model = SPMClassifier(**parameters, random_state=seed)
                return _measure(model, data.train, test, share, seed, is_frozen=frozen is not None)

            say(f"{share:.0%} of the rows exact, seed {seed}")
            done.append(runs.run(settings, work))
    return done


def _parameters(
    train: Split, scale: str, frozen: dict[str, Any] | None, folder: Path, *, verbose: bool
) -> dict[str, Any]:
    shared = {"checkpoint": folder / "spm", "verbose": verbose}
    if frozen is not None:
        return parameters_of({**frozen, **_PRETRAIN, **shared})
    return parameters_of({**preset_settings(scale, input_shape(train.X)), **shared})


def _measure(
    model: SPMClassifier, train: Split, test: Split, share: float, seed: int, *, is_frozen: bool
) -> dict[str, Any]:
    """Train, remember, and return test accuracies and the levels of both kinds of rows."""
    seen, unseen = _parts(train.y, share, seed)
    start = time.perf_counter()
    if is_frozen:
        if len(seen):
            part = train.take(seen)
            model.pretrain(part.X, part.y, ids=part.ids)
        model.remember(train.X, train.y, ids=train.ids)
    else:
        part = train.take(seen)
        model.fit(part.X, part.y, ids=part.ids)
        if len(unseen):
            rest = train.take(unseen)
            model.remember(rest.X, rest.y, ids=rest.ids)
    seconds = time.perf_counter() - start
    levels = {
        name: model.forget(ids=[train.ids[places[0]]], dry_run=True).level
        for name, places in (("seen", seen), ("unseen", unseen))
        if len(places)
    }
    queries = model.embed(test.X, ids=test.ids if is_frozen else None)
    return {
        "accuracies": {r: _accuracy(model, queries, test, r) for r in ("prototypes", "gaussian")},
        "levels": levels,
        "rows_seen": len(seen),
        "seconds": seconds,
    }


def _accuracy(model: SPMClassifier, queries: Any, test: Split, reduction: str) -> float:
    best = read_embedded(model.set_params(reduction=reduction), queries).argmax(axis=1)
    return float(np.mean(model.classes_[best] == test.y))


def _parts(labels: Any, share: float, seed: int) -> tuple[Ints, Ints]:
    """Return the places of rows to train on and of rows to remember only.

    Unless all rows are exact, at least one of each class is trained on.
    """
    rng = np.random.default_rng([seed, 1])
    seen: list[int] = []
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        kept = len(members) if share == 0 else max(len(members) - round(share * len(members)), 1)
        seen += [] if share == 1 else members[:kept].tolist()
    chosen = np.sort(np.array(seen, np.int64))
    return chosen, np.setdiff1d(np.arange(len(labels)), chosen)
