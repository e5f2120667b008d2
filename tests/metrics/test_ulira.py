import math

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from erasable.errors import ArgumentError
from erasable.metrics import Estimate, margins, u_lira
from metrics.strategies import unhurried

RNG_SETS = np.random.default_rng(0).normal(size=(2, 40, 5))


def message_of(function, *args, **kwargs):
    with pytest.raises(ArgumentError) as caught:
        function(*args, **kwargs)
    return str(caught.value)


def normal_pair(shift, *, models=2000, rows=40, scale=1.0, seed=0):
    """Draw margins of two sets of models, ``shift`` apart."""
    rng = np.random.default_rng(seed)
    return shift + scale * rng.normal(size=(models, rows)), rng.normal(size=(models, rows))


@st.composite
def margin_sets(draw):
    """Draw margins of two sets of models; coarse values, so that ties and equal sets occur."""
    rows = draw(st.integers(1, 4))
    values = st.integers(-6, 6).map(lambda value: value / 4)
    sizes = draw(st.tuples(st.integers(4, 9), st.integers(4, 9)))
    return tuple(draw(hnp.arrays(np.float64, (size, rows), elements=values)) for size in sizes)


# -- slow references ---------------------------------------------------------------------------


def slow_scores(unlearned, oracle, folds):
    """Judge each model by fits to the other folds; per fold and row two lists of scores."""
    scores = []
    for fold in range(folds):
        of_rows = []
        for row in range(unlearned.shape[1]):
            fits, held = [], []
            for values in (unlearned[:, row], oracle[:, row]):
                fit = [v for i, v in enumerate(values) if i % folds != fold]
                held.append([v for i, v in enumerate(values) if i % folds == fold])
                mean = math.fsum(fit) / len(fit)
                variance = math.fsum((v - mean) ** 2 for v in fit) / len(fit)
                fits.append(norm(mean, math.sqrt(variance + 1e-18)))
            ratios = [[fits[0].logpdf(v) - fits[1].logpdf(v) for v in part] for part in held]
            digits = [[float(np.float32(r)) for r in part] for part in ratios]  # as many as count
            of_rows.append([[0.0 if abs(r) < 1e-6 else r for r in part] for part in digits])
        scores.append(of_rows)
    return scores


def slow_accuracy(scores, row):
    u = [score for fold in scores for score in fold[row][0]]
    o = [score for fold in scores for score in fold[row][1]]
    right_u = sum(1.0 if s > 0 else 0.5 if s == 0 else 0.0 for s in u) / len(u)
    right_o = sum(1.0 if s < 0 else 0.5 if s == 0 else 0.0 for s in o) / len(o)
    return (right_u + right_o) / 2


def slow_auc(parts):
    wins, pairs = 0.0, 0
    for u, o in parts:
        for s in u:
            for t in o:
                wins += 1.0 if s > t else 0.5 if s == t else 0.0
                pairs += 1
    return wins / pairs


def slow_tpr(parts, rate):
    """Rank each score among the opponents of its fold, ties at random; count the first ranks."""
    passed = []
    for u, o in parts:
        for s in u:
            above, equal = sum(t > s for t in o), sum(t == s for t in o)
            allowed = rate * (len(o) + 1)
            passed.append(min(max((allowed - above) / (equal + 1), 0), 1))
    return sum(passed) / len(passed)


def pooled(scores):
    return [
        tuple([s for row in fold for s in row[kind]] for kind in (0, 1))
        for fold in scores  # all rows of a fold together
    ]


MIRRORED = (
    np.array([[-1.0], [-1.25], [0.5], [0.0]]),
    np.array([[0.0], [-1.5], [-1.0], [0.0], [-0.5], [0.0], [-1.5]]),
)
"""Different margins that are equally likely; sums of floats alone would order them."""


@unhurried
@given(margin_sets(), st.integers(2, 4))
@example(MIRRORED, 2)
def test_it_equals_loops_over_folds_rows_and_models(sets, folds):
    unlearned, oracle = sets
    found = u_lira(unlearned, oracle, folds=folds, rates=(0.5,))
    scores = slow_scores(unlearned, oracle, folds)
    rows = range(unlearned.shape[1])
    accuracy = [slow_accuracy(scores, row) for row in rows]
    np.testing.assert_allclose(found.row_accuracy, accuracy, atol=1e-12)
    assert found.accuracy.value == pytest.approx(np.mean(accuracy), abs=1e-12)
    for row in rows:
        parts = [fold[row] for fold in scores]
        assert found.row_auc[row] == pytest.approx(slow_auc(parts), abs=1e-12)
        assert found.row_tpr[0.5][row] == pytest.approx(slow_tpr(parts, 0.5), abs=1e-12)
    assert found.auc.value == pytest.approx(slow_auc(pooled(scores)), abs=1e-12)
    assert found.tpr[0.5].value == pytest.approx(slow_tpr(pooled(scores), 0.5), abs=1e-12)


def test_the_auc_of_one_fold_is_that_of_scikit_learn():
    unlearned, oracle = normal_pair(0.7, models=60, rows=1)
    scores = slow_scores(unlearned, oracle, 2)
    expected = []
    for fold in scores:
        u, o = fold[0]
        expected.append(roc_auc_score([1] * len(u) + [0] * len(o), u + o))
    assert u_lira(unlearned, oracle, folds=2).row_auc[0] == pytest.approx(np.mean(expected))


# -- closed forms ------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.5, 1.0, 2.0])
def test_normal_margins_a_known_distance_apart_give_the_known_accuracy_and_auc(shift):
    found = u_lira(*normal_pair(shift))
    assert found.accuracy.value == pytest.approx(norm.cdf(shift / 2), abs=0.005)
    assert found.auc.value == pytest.approx(norm.cdf(shift / math.sqrt(2)), abs=0.005)
    expected = norm.cdf(shift + norm.ppf(0.01))
    assert found.tpr[0.01].value == pytest.approx(expected, abs=0.01)


def test_a_difference_in_spread_alone_is_found():
    found = u_lira(*normal_pair(0.0, scale=2.0))
    crossing = math.sqrt(2 * math.log(2) / (1 - 1 / 4))
    inside, outside = 2 * norm.cdf(crossing) - 1, 2 * norm.cdf(-crossing / 2)
    assert found.accuracy.value == pytest.approx((inside + outside) / 2, abs=0.005)


def test_the_attacker_of_each_row_is_its_own():
    unlearned, oracle = normal_pair(0.0)
    unlearned[:, 0] += 3
    found = u_lira(unlearned, oracle)
    assert found.row_accuracy[0] == pytest.approx(norm.cdf(1.5), abs=0.01)
    assert np.abs(found.row_accuracy[1:] - 0.5).max() < 0.05


# -- chance ------------------------------------------------------------------------------------


def test_two_sets_of_one_distribution_are_within_noise_of_chance():
    found = u_lira(*normal_pair(0.0, models=1000))
    assert found.accuracy.is_near(0.5)
    assert found.auc.is_near(0.5)
    assert all(found.tpr[rate].is_near(rate) for rate in (0.001, 0.01))
    assert found.share_outside <= 0.1


def test_over_many_draws_chance_is_unbiased_and_its_error_covers():
    """Rows that move together, as those of one model do."""
    rng = np.random.default_rng(3)
    near, values = [], []
    for _ in range(80):
        sets = rng.normal(size=(2, 60, 6)) + rng.normal(size=(2, 60, 1))
        found = u_lira(*sets, rates=(0.2,))
        figures = (found.accuracy, 0.5), (found.auc, 0.5), (found.tpr[0.2], 0.2)
        near.append([figure.is_near(target) for figure, target in figures])
        values.append([figure.value for figure, _ in figures])
    spread = np.std(values, axis=0) / math.sqrt(len(values))
    assert (np.abs(np.mean(values, axis=0) - [0.5, 0.5, 0.2]) < 4 * spread).all()
    assert (np.mean(near, axis=0) > 0.9).all()


def test_errors_over_rows_that_move_together_do_not_shrink_with_the_rows():
    one, many = (
        u_lira(*np.repeat(np.random.default_rng(0).normal(size=(2, 100, 1)), rows, axis=2))
        for rows in (1, 50)
    )
    assert many.accuracy.error == pytest.approx(one.accuracy.error)
    assert many.auc.error == pytest.approx(one.auc.error, rel=0.05)


@unhurried
@given(margin_sets())
def test_a_set_compared_with_itself_is_at_chance_to_the_bit(sets):
    found = u_lira(sets[0], sets[0].copy(), folds=4, rates=(0.75,))
    assert (found.row_accuracy == 0.5).all()
    assert (found.row_auc == 0.5).all()
    np.testing.assert_allclose(found.row_tpr[0.75], 0.75, atol=1e-12)


@unhurried
@given(margin_sets())
def test_exchanging_the_sets_leaves_accuracy_and_auc(sets):
    there, back = u_lira(*sets, folds=3), u_lira(*sets[::-1], folds=3)
    np.testing.assert_allclose(there.row_accuracy, back.row_accuracy, atol=1e-12)
    np.testing.assert_allclose(there.row_auc, back.row_auc, atol=1e-12)


# -- models without any spread -----------------------------------------------------------------


@pytest.mark.parametrize("value", [0.1, -np.inf, np.inf, 0.0])
def test_equal_deterministic_models_are_at_chance(value):
    found = u_lira(np.full((20, 3), value), np.full((33, 3), value), rates=(0.5,))
    assert (found.accuracy, found.auc) == (Estimate(0.5, 0.0), Estimate(0.5, 0.0))
    assert found.tpr[0.5].value == pytest.approx(0.5)
    assert found.share_outside == 0.0


def test_deterministic_models_that_differ_are_told_apart():
    found = u_lira(np.full((20, 1), 0.3), np.full((20, 1), 0.2))
    assert (found.accuracy.value, found.auc.value) == (1.0, 1.0)


def test_rounding_is_no_difference():
    found = u_lira(np.full((20, 1), 0.3), np.full((20, 1), 0.3 + 1e-13))
    assert found.accuracy.value == 0.5


def test_a_deterministic_set_is_told_from_one_with_spread():
    oracle = np.random.default_rng(0).normal(size=(200, 1))
    assert u_lira(np.zeros((200, 1)), oracle).accuracy.value == 1.0


def test_a_class_without_rows_in_both_sets_is_at_chance():
    logs = np.tile(np.array([[0.0, -np.inf], [np.log(0.5), np.log(0.5)]]), (12, 1, 1))
    assert u_lira(logs, logs.copy(), labels=np.array([1, 0])).accuracy.value == 0.5


# -- false-positive rates ----------------------------------------------------------------------


@pytest.mark.parametrize(("models", "is_known"), [(989, False), (990, True)])
def test_a_rate_of_one_percent_takes_ninety_nine_held_out_oracles_per_fold(models, is_known):
    found = u_lira(*normal_pair(0.0, models=models, rows=1))
    assert np.isfinite(found.tpr[0.01].value) == is_known
    assert np.isfinite(found.tpr[0.01].error) == is_known
    assert np.isfinite(found.row_tpr[0.01]).all() == is_known
    assert math.isnan(found.tpr[0.001].value)


def test_all_rows_together_reach_rates_that_one_row_does_not():
    found = u_lira(*normal_pair(0.0, models=100, rows=150))
    assert np.isnan(found.row_tpr[0.01]).all()
    assert np.isfinite(found.tpr[0.001].value)


# -- inputs ------------------------------------------------------------------------------------


def test_log_probabilities_with_labels_give_the_same_as_their_margins():
    logits = torch.randn(2, 30, 4, 3, generator=torch.Generator().manual_seed(0))
    labels = np.array([0, 1, 2, 0])
    logs = logits.double().log_softmax(dim=3)
    found = u_lira(logs[0], logs[1], labels=labels)
    expected = u_lira(*(margins(part, labels=labels) for part in logs))
    np.testing.assert_array_equal(found.row_accuracy, expected.row_accuracy)


def test_no_model_is_judged_by_a_fit_that_saw_it():
    """Six models are remembered by heart: a fit to the models it judges would reach 0.65."""
    sets = np.random.default_rng(0).normal(size=(2, 6, 4000))
    assert u_lira(*sets, folds=3).accuracy.value == pytest.approx(0.5, abs=0.01)


def test_no_model_is_judged_by_a_fit_that_saw_its_twin():
    """Twins on different sides would pull the accuracy below 0.5."""
    rng = np.random.default_rng(0)
    sets = rng.normal(size=(6, 4000)) + 0.01 * rng.normal(size=(2, 6, 4000))
    assert u_lira(*sets, folds=3).accuracy.value == pytest.approx(0.5, abs=0.01)


def test_models_of_two_sets_may_be_of_different_number():
    assert 0 <= u_lira(RNG_SETS[0], RNG_SETS[1][:17]).accuracy.value <= 1


@pytest.mark.parametrize("values", ["ab", None, [[1.0], [0.5, 0.5]]])
def test_what_is_not_numbers_is_refused_with_its_type(values):
    assert message_of(u_lira, values, RNG_SETS[1]) == (
        "u_lira(): Expected 'unlearned' to be numbers of shape (models, rows), but got "
        f"{type(values).__name__}. Pass a NumPy array or a torch tensor."
    )


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4), (0, 5), (40, 0)])
def test_a_shape_other_than_models_by_rows_is_refused(shape):
    assert message_of(u_lira, np.zeros(shape), np.zeros(shape)).startswith(
        "u_lira(): Expected 'unlearned' to have shape (models, rows) with at least one of each, "
        f"but got {shape}. Pass margins, or log-probabilities with labels."
    )


def test_margins_with_labels_are_refused():
    assert "Pass log-probabilities, or margins without labels." in message_of(
        u_lira, *RNG_SETS, labels=np.zeros(5, int)
    )


def test_sets_on_different_rows_are_refused():
    assert message_of(u_lira, RNG_SETS[0], RNG_SETS[1][:, :3]) == (
        "u_lira(): Expected 'oracle' to have shape (models, 5) to match 'unlearned', but got "
        "(40, 3). Ask all models for the same rows and classes."
    )


def test_nan_is_refused_with_its_models():
    values = RNG_SETS[0].copy()
    values[3, 1] = np.nan
    assert message_of(u_lira, values, RNG_SETS[1]) == (
        "u_lira(): Expected 'unlearned' to have no NaN, but not so of models: 3. "
        "Check the models' outputs first."
    )


@pytest.mark.parametrize("folds", [1, 2.0, True])
def test_fewer_than_two_folds_are_refused(folds):
    assert message_of(u_lira, *RNG_SETS, folds=folds) == (
        f"u_lira(): Expected 'folds' to be an int of 2 or more, but got {folds!r}. Pass 10."
    )


def test_fewer_models_than_folds_are_refused():
    assert message_of(u_lira, RNG_SETS[0][:9], RNG_SETS[1]) == (
        "u_lira(): Expected 'unlearned' to have at least 10 models for 10 folds, but got 9. "
        "Draw more shadow models, or pass fewer folds."
    )


def test_a_fit_to_a_single_model_is_refused():
    assert "at least 4 models for 2 folds, but got 3." in message_of(
        u_lira, RNG_SETS[0][:3], RNG_SETS[1], folds=2
    )


def test_all_problems_are_raised_at_once():
    found = message_of(u_lira, None, RNG_SETS[1], rates=(0.0, 1.5), clip=-1.0, folds=0)
    for part in ("'unlearned' to be numbers", "but got: 0.0, 1.5.", "'clip'", "'folds'"):
        assert part in found


# -- margins -----------------------------------------------------------------------------------


def test_margins_are_log_odds():
    probabilities = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    found = margins(np.log(probabilities), labels=np.array([0, 1]))
    np.testing.assert_allclose(found, [math.log(0.7 / 0.3), math.log(0.1 / 0.9)])


def test_margins_keep_their_digits_where_one_minus_p_has_none():
    logs = torch.tensor([[300.0, 0.0, 0.0]], dtype=torch.float64).log_softmax(dim=1)
    found = margins(logs, labels=np.array([0]))
    assert found[0] == pytest.approx(300 - math.log(2), rel=1e-15)


def test_margins_of_impossible_and_certain_labels_are_infinite():
    logs = np.array([[0.0, -np.inf], [0.0, -np.inf]])
    assert margins(logs, labels=np.array([0, 1])).tolist() == [np.inf, -np.inf]
    assert margins(np.zeros((1, 1)), labels=np.array([0])).tolist() == [np.inf]


@unhurried
@given(hnp.arrays(np.float64, (2, 3, 4), elements=st.floats(-20, 20)), st.data())
def test_margins_equal_a_loop_over_models_rows_and_classes(logits, data):
    labels = np.array(data.draw(st.lists(st.integers(0, 3), min_size=3, max_size=3)))
    logs = torch.from_numpy(logits).log_softmax(dim=2).numpy()
    expected = np.empty((2, 3))
    for model in range(2):
        for row, label in enumerate(labels):
            others = [math.exp(logs[model, row, c]) for c in range(4) if c != label]
            expected[model, row] = logs[model, row, label] - math.log(math.fsum(others))
    np.testing.assert_allclose(margins(logs, labels=labels), expected, rtol=1e-9, atol=1e-9)


def test_margins_of_what_does_not_sum_to_one_are_refused():
    assert message_of(margins, np.zeros((1, 2)), labels=np.array([0])) == (
        "margins(): Expected 'log_probabilities' to be log-probabilities, each row summing to 1 "
        "within 1e-06, but not so of models: 0. Check the models' outputs first."
    )


@pytest.mark.parametrize(
    ("labels", "part"),
    [
        (np.array([0.0]), "'labels' to be integers, but got float64. Pass the column"),
        (np.array([0, 1]), "'labels' to have shape (1,), but got (2,). Pass one label per row."),
        (np.array([2]), "'labels' to be class columns in 0…1, but got: 2. Pass the column"),
    ],
)
def test_margins_by_wrong_labels_are_refused(labels, part):
    assert part in message_of(margins, np.log([[0.5, 0.5]]), labels=labels)


def test_labels_are_not_blamed_where_no_prediction_is_usable():
    assert "labels" not in message_of(margins, "ab", labels=np.array([7]))
