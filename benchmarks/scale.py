"""Test accuracy on the digits with and without the factor 1/√dim on attention scores.

``small_cnn`` with 64 dimensions, prototypes, 12 epochs, three learning rates, seeds 0 to 2; 20 % of
each class held out. A run that diverges counts as such.
"""

import numpy as np

from erasable import SPMClassifier
from erasable.data import load_digits
from erasable.errors import ErasableError

SEEDS = (0, 1, 2)
RATES = (0.03, 0.1, 0.3)


def accuracy(scale: str, rate: float, seed: int) -> float | None:
    """Return the test accuracy of one training run, or None if it diverged."""
    train, test = load_digits()
    model = SPMClassifier(
        "small_cnn",
        encoder_options={"widths": [32, 64], "dim": 64},
        scale=scale,
        epochs=12,
        learning_rate=rate,
        random_state=seed,
    )
    try:
        return float(model.fit(train.X, train.y).score(test.X, test.y))
    except ErasableError:
        return None


def cell(scale: str, rate: float) -> str:
    """Return mean and range over the seeds, in percent."""
    found = [accuracy(scale, rate, seed) for seed in SEEDS]
    values = [100 * value for value in found if value is not None]
    text = f"{np.mean(values):.1f} ({min(values):.1f}–{max(values):.1f})" if values else "–"
    diverged = len(found) - len(values)
    return text + (f", {diverged} diverged" if diverged else "")


def measure() -> list[str]:
    """Return the lines of a Markdown table."""
    lines = ["| learning rate | `sqrt` | `none` |", "|---:|---:|---:|"]
    for rate in RATES:
        lines.append(f"| {rate} | {cell('sqrt', rate)} | {cell('none', rate)} |")
    return lines


if __name__ == "__main__":
    print("\n".join(measure()))
