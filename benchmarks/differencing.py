"""What asking before and after an exact forget shows of the row, on handwritten digits.

Twenty rows that the weights never saw, forgotten one after the other, for three seeds: of the draw
of rows, of the weights, and of the rows that were trained on.

    python benchmarks/differencing.py --out docs/results/digits-differencing.md
"""

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from erasable import KNNClassifier, SPMClassifier, __version__
from erasable.data import Split, load_digits
from erasable.models import Differencing, differencing
from erasable.models._differencing import ATTACKER

SEEDS = (0, 1, 2)
TRAINED = 700

Model = SPMClassifier | KNNClassifier


def pixels(train: Split, seed: int) -> Model:
    """Return a model that reads pixels; nothing is trained."""
    model = SPMClassifier("identity", attention="similarity", random_state=seed)
    return model.remember(train.X, train.y, ids=train.ids)


def drawn(train: Split, seed: int) -> Model:
    """Return a model with an encoder as it was drawn."""
    model = SPMClassifier("random_features", encoder_options={"dim": 256}, random_state=seed)
    return model.remember(train.X, train.y, ids=train.ids)


def trained(train: Split, seed: int) -> Model:
    """Return a model trained on 700 rows that holds only the others."""
    order = np.random.default_rng(seed).permutation(len(train.X))
    first, others = order[:TRAINED], order[TRAINED:]
    model = SPMClassifier(epochs=5, random_state=seed)
    model.fit(train.X[first], train.y[first], ids=[train.ids[i] for i in first])
    model.remember(train.X[others], train.y[others], ids=[train.ids[i] for i in others])
    model.forget(ids=[train.ids[i] for i in first])
    return model


def nearest(train: Split, seed: int) -> Model:
    """Return plain nearest neighbours over an encoder as it was drawn."""
    model = KNNClassifier("random_features", k=20, encoder_options={"dim": 256}, random_state=seed)
    return model.remember(train.X, train.y, ids=train.ids)


MODELS: dict[str, Callable[[Split, int], Model]] = {
    "pixels, plain similarity": pixels,
    "`random_features`, 256": drawn,
    "`mlp` and comparison, trained on 700 other rows": trained,
    "`random_features`, 256, `KNNClassifier(k=20)`": nearest,
}


def lines(found: list[Differencing], name: str) -> list[str]:
    """Return the table's lines of one model: one finding per seed."""
    made = []
    for shown in zip(*(one.readouts for one in found), strict=True):
        means = [one.mean for one in shown]
        made.append(
            f"| {name} | `{shown[0].readout}` | {100 * np.mean([s.changed for s in shown]):.0f} "
            f"| {np.mean(means):.3f} ± {np.std(means, ddof=1):.3f} "
            f"| {min(s.least for s in shown):.3f} | {max(s.largest for s in shown):.3f} "
            f"| {found[0].chance:.3f} |"
        )
    return made


def page() -> str:
    """Return the page."""
    start = time.perf_counter()
    train, _ = load_digits()
    table = []
    for name, build in MODELS.items():
        found = [differencing(build(train, seed), seed=seed) for seed in SEEDS]
        table += lines(found, name)
    return "\n".join(
        [
            "# What asking before and after shows, digits",
            "",
            "An [exact](../levels.md) forget leaves nothing of a row in the model. It does not "
            "hide the row from somebody who asks the model before and after.",
            "",
            f"**Attacker.** {ATTACKER}",
            "",
            "**Cosine**: between what the attacker reconstructs and what the row has of its own, "
            "its embedding less the mean of its class's other rows; without sign. 1 is all of its "
            "direction. Mean ± standard deviation over the seeds of the means over 20 rows; least "
            "and largest of all 60 rows. *Changed*: forgets after which any answer differed, in "
            "percent. *Chance*: a direction drawn at random.",
            "",
            "| model | readout | changed | cosine | least | largest | chance |",
            "|---|---|---:|---:|---:|---:|---:|",
            *table,
            "",
            "The figures are what this attack achieves; a better one may achieve more. Somebody "
            "who can only send inputs, or sees rounded answers, achieves less. `votes` needs no "
            "attack: the row's id is there before, and not after.",
            "",
            "## How it was run",
            "",
            "`python benchmarks/differencing.py --out docs/results/digits-differencing.md`",
            "",
            f"- seeds: {', '.join(map(str, SEEDS))}; level of every forget: exact",
            f"- {platform.system()}; Python {platform.python_version()}, torch "
            f"{torch.__version__}, numpy {np.__version__}, erasable {__version__}",
            f"- {(time.perf_counter() - start) / 60:.0f} minutes in all",
            "",
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.parse_args().out.write_text(page(), encoding="utf-8")
