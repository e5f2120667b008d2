"""What the unlearning benchmark adds to the work of a method, beside one training.

Random images of Fashion-MNIST's size at preset `laptop`: a training of 60,000 rows (measured on
6,000 and scaled), asking the trained network for every row, and what the harness does around both:
the forget set and its digest, every gap, four membership attacks, and keeping the run.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from erasable.bench._evaluation import Evaluation
from erasable.bench._predictions import predict_all
from erasable.bench._rules import forget_digest, scenario
from erasable.bench._runs import Runs
from erasable.data import Split
from erasable.models import ParametricClassifier, preset
from erasable.training import input_shape

ROWS, TEST, PART = 60_000, 10_000, 6_000


def split(count: int, name: str) -> Split:
    rng = np.random.default_rng(count)
    y = rng.integers(10, size=count)
    X = rng.integers(0, 100, size=(count, 28, 28), dtype=np.uint8)
    X[np.arange(count), y] += 120  # a bright row of pixels tells the class
    return Split(X, y, [f"{name}/{i}" for i in range(count)])


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def main() -> None:
    train, test = split(ROWS, "train"), split(TEST, "test")
    model = ParametricClassifier(**preset("laptop", input_shape(train.X)), random_state=0)
    few = train.take(range(PART))
    model.fit(few.X, few.y)  # warms up
    seconds, _ = timed(lambda: model.fit(few.X, few.y))
    training = seconds * ROWS / PART
    asking, answers = timed(lambda: predict_all(model, train, test, list(range(10))))
    finding, found = timed(lambda: scenario(train, "random:10%"))
    hashing, digest = timed(lambda: forget_digest(train, found))
    evaluation = Evaluation(found, train, test, list(range(10)))
    comparing, gaps = timed(lambda: evaluation.compare(answers, answers))
    attacking, attacks = timed(lambda: evaluation.attacks(answers))
    with tempfile.TemporaryDirectory() as folder:
        result = {"compare": gaps, "attacks": attacks}
        work = lambda _: result  # noqa: E731 - nothing to do
        keeping, _ = timed(lambda: Runs(Path(folder)).run({"forget": digest}, work))
    around = finding + hashing + comparing + attacking + keeping
    rows = {
        "a training": training,
        "asking for every row": asking,
        "forget set and digest": finding + hashing,
        "all gaps": comparing,
        "four attacks": attacking,
        "keeping the run": keeping,
        "the harness: the last four": around,
    }
    print("| | seconds | of a training |")
    print("|---|---:|---:|")
    for name, value in rows.items():
        print(f"| {name} | {value:.3f} | {100 * value / training:.2f} % |")


if __name__ == "__main__":
    main()
