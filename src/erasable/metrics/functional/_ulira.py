"""U-LiRA: can a dedicated attacker tell a model that forgot a row from one that never saw it?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from erasable.errors import Problems
from erasable.metrics.functional._attack import (
    Estimate,
    Z,
    accuracies,
    aucs,
    true_positive_rates,
)
from erasable.metrics.functional._convert import Array
from erasable.metrics.functional._margins import CLIP, clipped, margins_of_sets, require_clip
from erasable.typing import Float64s

RATES = (0.001, 0.01)
_NOISE = 1e-9
"""What the attacker's eyes blur, so that models without any spread have a likelihood, too."""

_TIE = 1e-6
"""Log-likelihood ratios below this say nothing: with `_NOISE`, margins 1e-12 apart are equal."""


@dataclass(frozen=True, eq=False)
class MembershipAttack:
    """How well a dedicated attacker per row tells unlearned models from oracles.

    The first three are over all rows, the others of each row.

    Attributes:
        accuracy: Share of held-out models told apart, half of them of each kind; 0.5 is chance.
        auc: Probability that an unlearned model looks more unlearned than an oracle; 0.5 is chance.
        tpr: By false-positive rate: share of unlearned models recognised at the threshold where a
            fresh oracle is taken for unlearned at that rate; the rate itself is chance. NaN where a
            fold holds out fewer than 1/rate − 1 values of oracles: no threshold is that high.
        row_accuracy: (rows,).
        row_accuracy_error: Its standard error, (rows,).
        row_auc: (rows,).
        row_auc_error: Its standard error, (rows,).
        row_tpr: By false-positive rate, (rows,); NaN as above, where a fold has one value per
            held-out oracle.
    """

    accuracy: Estimate
    auc: Estimate
    tpr: dict[float, Estimate]
    row_accuracy: Float64s
    row_accuracy_error: Float64s
    row_auc: Float64s
    row_auc_error: Float64s
    row_tpr: dict[float, Float64s]

    @property
    def share_outside(self) -> float:
        """Share of rows with 0.5 outside the 95 % interval of their accuracy; 0.05 is chance."""
        distance = np.abs(self.row_accuracy - 0.5)
        return float(np.mean(distance > Z * self.row_accuracy_error))


def u_lira(
    unlearned: Array,
    oracle: Array,
    *,
    labels: Array | None = None,
    folds: int = 10,
    rates: Sequence[float] = RATES,
    clip: float = CLIP,
) -> MembershipAttack:
    """Attack forgotten rows: was a model trained with the row and unlearned, or never shown it?

    U-LiRA of Hayes et al. 2024, "Inexact Unlearning Needs More Careful Evaluations to Avoid a False
    Sense of Privacy". For each row, a normal distribution is fitted to its margin (see `margins`)
    over shadow models that learnt and then forgot the row, another over models that never saw it,
    and a held-out model is judged by the ratio of its likelihoods. Fits and judgements never share
    a model: each of the ``folds`` parts is judged by fits to the others, and only values judged by
    the same fits are ranked against each other. Model i is in part ``i % folds`` in both sets, so
    models paired by their place are held out together.

    Accuracy and AUC range from 0 to 1; lower is better, down to 0.5, which is the oracle's value
    and what an attacker gets by tossing a coin; below it is noise. Standard errors treat all rows
    of one model as one draw, since they move together, and count variances twice, because each
    model also takes part in the fits that judge the others: at chance that is what it costs at
    most. Sets without any spread are told apart if they differ by more than rounding (1e-12), and
    equal ones give 0.5.

    It does not show that rows left no trace: another statistic or attacker, or access to the
    weights, may succeed where this fails; and where the attack does not even recognise models that
    still hold the row, its failure after forgetting says nothing.

    Args:
        unlearned: Margins (models, rows) of models that learnt the rows and forgot them, or their
            log-probabilities (models, rows, classes) with ``labels``.
        oracle: The same of models that never saw the rows.
        labels: (rows,), the column of each row's class; None if margins are passed.
        folds: Number of parts, each held out once.
        rates: False-positive rates to report true-positive rates at. A rate takes ``1/rate − 1``
            held-out values of oracles in each fold, 99 for 1 % and 999 for 0.1 %. A fold has
            models/folds values of one row, and as many times rows of all rows together.
        clip: Largest margin in magnitude; larger ones are taken as this.

    Raises:
        ArgumentError: If an argument is malformed; one message names every problem.

    Examples:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> oracle, same = rng.normal(size=(2, 1000, 20))
        >>> u_lira(same, oracle).accuracy.is_near(0.5)
        True
        >>> print(f"{u_lira(same + 2, oracle).accuracy.value:.2f}")
        0.84
    """
    problems = Problems("u_lira()")
    found = margins_of_sets(problems, {"unlearned": unlearned, "oracle": oracle}, labels)
    _require_folds(problems, folds, found)
    _require_rates(problems, rates)
    require_clip(problems, clip)
    problems.raise_if_any()
    first, second = (clipped(found[name], clip) for name in ("unlearned", "oracle"))
    scores = list(_held_out_scores(first, second, folds))
    accuracy, row_accuracy, row_accuracy_error = accuracies(scores)
    auc, row_auc, row_auc_error = aucs(scores)
    tpr = {rate: true_positive_rates(scores, rate) for rate in rates}
    return MembershipAttack(
        accuracy=accuracy,
        auc=auc,
        tpr={rate: total for rate, (total, _) in tpr.items()},
        row_accuracy=row_accuracy,
        row_accuracy_error=row_accuracy_error,
        row_auc=row_auc,
        row_auc_error=row_auc_error,
        row_tpr={rate: rows for rate, (_, rows) in tpr.items()},
    )


def _held_out_scores(
    unlearned: Float64s, oracle: Float64s, folds: int
) -> Iterator[tuple[Float64s, Float64s]]:
    part_u, part_o = (np.arange(len(values)) % folds for values in (unlearned, oracle))
    for fold in range(folds):
        fits = _fit(unlearned[part_u != fold]), _fit(oracle[part_o != fold])
        yield _ratio(unlearned[part_u == fold], *fits), _ratio(oracle[part_o == fold], *fits)


def _fit(values: Float64s) -> tuple[Float64s, Float64s]:
    return values.mean(axis=0), values.var(axis=0) + _NOISE**2


def _ratio(
    values: Float64s, fit_u: tuple[Float64s, Float64s], fit_o: tuple[Float64s, Float64s]
) -> Float64s:
    """Return the log of how much likelier values are under the first fit than the second.

    Two values on either side of both means can be equally likely; seven digits tie them, whatever
    the rounding of the sums.
    """
    (mean_u, variance_u), (mean_o, variance_o) = fit_u, fit_o
    spread = 0.5 * np.log(variance_o / variance_u)
    place = (values - mean_o) ** 2 / (2 * variance_o) - (values - mean_u) ** 2 / (2 * variance_u)
    ratio: Float64s = (spread + place).astype(np.float32).astype(np.float64)
    return np.where(np.abs(ratio) < _TIE, 0.0, ratio)


def _require_folds(problems: Problems, folds: int, found: dict[str, Float64s]) -> None:
    if type(folds) is not int or folds < 2:
        problems.note(f"Expected 'folds' to be an int of 2 or more, but got {folds!r}. Pass 10.")
        return
    needed = max(folds, 4)
    for name, values in found.items():
        if values.size and len(values) < needed:
            problems.note(
                f"Expected '{name}' to have at least {needed} models for {folds} folds, but got "
                f"{len(values)}. Draw more shadow models, or pass fewer folds."
            )


def _require_rates(problems: Problems, rates: Sequence[float]) -> None:
    wrong = [rate for rate in rates if not 0 < rate < 1]
    expected = "Expected 'rates' to be between 0 and 1, but got"
    problems.note_items(wrong, expected, remedy="Pass rates like 0.01.")
