"""KLOM: how far the margins of unlearned models are, as distributions, from those of oracles."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from erasable.errors import Problems
from erasable.metrics.functional._convert import Array
from erasable.metrics.functional._kl import divergences
from erasable.metrics.functional._margins import CLIP, clipped, margins_of_sets, require_clip
from erasable.typing import Float64s, Ints


@dataclass(frozen=True, eq=False)
class MarginDivergence:
    """KLOM of each row, in nats, and its summaries over the rows; lower is better.

    Attributes:
        rows: KL(unlearned‖oracle) of each row's margins, (rows,).
        floor: The same of a second, independent set of oracles against the first: what this many
            models give when nothing differs. None if no second set was passed.
    """

    rows: Float64s
    floor: "MarginDivergence | None" = None

    @property
    def mean(self) -> float:
        """Mean over the rows."""
        return float(self.rows.mean())

    @property
    def median(self) -> float:
        """Median over the rows."""
        return float(np.median(self.rows))

    @property
    def percentile_95(self) -> float:
        """What 95 % of the rows stay below."""
        return float(np.percentile(self.rows, 95))


def klom(
    unlearned: Array,
    oracle: Array,
    *,
    second_oracle: Array | None = None,
    labels: Array | None = None,
    bins: int = 20,
    clip: float = CLIP,
    smallest: float = 1e-5,
) -> MarginDivergence:
    """Compare, row by row, the distribution of margins over unlearned models and over oracles.

    KLOM, "KL divergence of margins", of Georgiev et al. 2024, "Attribute-to-Delete: Machine
    Unlearning via Datamodel Matching": for each row, ``KL(unlearned‖oracle)`` between histograms of
    its margin (see `margins`) over the models. As there, margins are clipped to ±100, the 20 bins
    are of equal width over the joint range of both sets, and a bin that unlearned models reach and
    oracles do not has probability 1e-5 for the oracles. Unlike in the code released with it, the
    largest margin is counted: it belongs to the last bin.

    Range 0 to log(1 + 1/smallest), 11.5 by default; lower is better. Identical sets give 0, but two
    sets of *n* models from one distribution do not: histograms of samples differ, by about
    ``(b − 1)/n`` for b bins in use, plus what bins in the tails add that only one set happens to
    reach. So the oracle's value is not 0 but this floor: pass ``second_oracle``, and read the
    result beside ``floor``, made of as many models as ``unlearned``. It does not show a difference
    between two models that is smaller than a bin, nor one in what models predict instead of the
    label, and nothing about a single model.

    Args:
        unlearned: Margins (models, rows) of unlearned models, or their log-probabilities (models,
            rows, classes) with ``labels``.
        oracle: The same of oracles, on the same rows.
        second_oracle: The same of further oracles, independent of the first.
        labels: (rows,), the column of each row's class; None if margins are passed.
        bins: Bins of the histograms.
        clip: Largest margin in magnitude; larger ones are taken as this.
        smallest: Smallest probability of a bin under the oracles, where unlearned models reach it.

    Raises:
        ArgumentError: If an argument is malformed; one message names every problem.

    Examples:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> oracle, second = rng.normal(size=(2, 1000, 50))
        >>> found = klom(oracle + 1, oracle, second_oracle=second)
        >>> print(f"{found.mean:.2f} against a floor of {found.floor.mean:.2f}")
        0.56 against a floor of 0.03
    """
    problems = Problems("klom()")
    sets = {"unlearned": unlearned, "oracle": oracle}
    if second_oracle is not None:
        sets["second_oracle"] = second_oracle
    found = margins_of_sets(problems, sets, labels)
    if type(bins) is not int or bins < 2:
        problems.note(f"Expected 'bins' to be an int of 2 or more, but got {bins!r}. Pass 20.")
    require_clip(problems, clip)
    if not 0 < smallest < 1:
        problems.note(
            f"Expected 'smallest' to be between 0 and 1, but got {smallest!r}. "
            "Pass a value like 1e-5."
        )
    problems.raise_if_any()
    parts = {name: clipped(values, clip) for name, values in found.items()}
    options: dict[str, Any] = {"bins": bins, "smallest": smallest}
    floor = None
    if second_oracle is not None:
        floor = MarginDivergence(_binned(parts["second_oracle"], parts["oracle"], **options))
    return MarginDivergence(_binned(parts["unlearned"], parts["oracle"], **options), floor)


def _binned(first: Float64s, second: Float64s, *, bins: int, smallest: float) -> Float64s:
    """Return KL(first‖second) of each column of samples, by histograms over their joint range."""
    low = np.minimum(first.min(axis=0), second.min(axis=0))
    width = np.maximum(first.max(axis=0), second.max(axis=0)) - low
    p, q = (_histograms(part, low, width, bins) for part in (first, second))
    q = np.where(p > 0, np.maximum(q, smallest), q)
    q /= q.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        return divergences(np.log(p), np.log(q))


def _histograms(samples: Float64s, low: Float64s, width: Float64s, bins: int) -> Float64s:
    """Return the share of each column's samples in each bin, (columns, bins)."""
    columns = samples.shape[1]
    # Where all samples are equal, they share the first bin.
    scaled = (samples - low) / np.where(width > 0, width, 1.0) * bins
    place: Ints = np.minimum(scaled.astype(np.int64), bins - 1)
    counts = np.bincount((place + np.arange(columns) * bins).ravel(), minlength=columns * bins)
    return np.asarray(counts.reshape(columns, bins) / len(samples))
