import math
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from itertools import pairwise
from multiprocessing import get_context

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics import MetricCollection

from erasable.errors import StateError
from erasable.metrics import AccuracyGap, KLOracleUnlearned, KLUnlearnedOracle, PredictionGap
from erasable.metrics import functional as F
from metrics.strategies import labelled_models, logs, unhurried

FUNCTIONS = {
    PredictionGap: F.prediction_gap,
    AccuracyGap: F.accuracy_gap,
    KLUnlearnedOracle: F.kl_unlearned_oracle,
    KLOracleUnlearned: F.kl_oracle_unlearned,
}
every_metric = pytest.mark.parametrize("kind", FUNCTIONS)

UNLEARNED = np.array([[0.9, 0.1, 0.0], [0.3, 0.4, 0.3], [0.2, 0.2, 0.6], [0.0, 0.5, 0.5]])
ORACLE = np.array([[0.5, 0.25, 0.25], [0.6, 0.2, 0.2], [0.1, 0.2, 0.7], [0.3, 0.2, 0.5]])
LABELS = np.array([0, 1, 2, 0])


def arguments(kind, unlearned=UNLEARNED, oracle=ORACLE, labels=LABELS, part=slice(None)):
    """Return what ``kind`` takes for some of the queries."""
    if kind in (KLUnlearnedOracle, KLOracleUnlearned):
        return (logs(unlearned[part]), logs(oracle[part])), {}
    extra = {"labels": labels[part]} if kind is AccuracyGap else {}
    return (unlearned[part], oracle[part]), extra


def updated(kind, *parts, **options):
    metric = kind(**options)
    for part in parts:
        args, kwargs = arguments(kind, part=part)
        metric.update(*args, **kwargs)
    return metric


@every_metric
@unhurried
@given(case=labelled_models(), data=st.data())
def test_any_split_into_batches_equals_the_function_on_all_queries(kind, case, data):
    cuts = sorted(data.draw(st.sets(st.integers(1, len(case[0])))) | {0, len(case[0])})
    metric = kind()
    for start, stop in pairwise(cuts):
        args, kwargs = arguments(kind, *case, part=slice(start, stop))
        metric.update(*map(torch.from_numpy, args), **kwargs)
    args, kwargs = arguments(kind, *case)
    assert metric.compute().item() == pytest.approx(FUNCTIONS[kind](*args, **kwargs), abs=1e-14)


@every_metric
def test_identical_models_give_zero(kind):
    args, kwargs = arguments(kind, oracle=UNLEARNED)
    metric = kind()
    metric.update(*args, **kwargs)
    assert metric.compute().item() == 0.0


def test_accuracy_gaps_of_opposite_sign_cancel_over_batches():
    metric = AccuracyGap()
    first, second = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    metric.update(first, second, labels=np.array([0]))
    metric.update(first, second, labels=np.array([1]))
    assert metric.compute().item() == 0.0


def test_a_worse_unlearned_model_has_a_positive_accuracy_gap():
    metric = AccuracyGap()
    metric.update(np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]]), labels=np.array([0]))
    assert metric.compute().item() == 1.0


@every_metric
def test_forward_gives_the_value_of_the_batch_and_accumulates(kind):
    metric = kind()
    for part in (slice(0, 1), slice(1, 4)):
        args, kwargs = arguments(kind, part=part)
        assert metric(*args, **kwargs).item() == pytest.approx(FUNCTIONS[kind](*args, **kwargs))
    args, kwargs = arguments(kind)
    assert metric.compute().item() == pytest.approx(FUNCTIONS[kind](*args, **kwargs))


@every_metric
def test_reset_forgets_the_batches_before_it(kind):
    metric = updated(kind, slice(0, 2))
    metric.reset()
    args, kwargs = arguments(kind, part=slice(2, 4))
    metric.update(*args, **kwargs)
    assert metric.compute().item() == FUNCTIONS[kind](*args, **kwargs)


@pytest.fixture(scope="module")
def other_process():
    """Run calls in another process, which starts from nothing."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool


@every_metric
def test_a_metric_sent_to_a_process_and_back_goes_on_where_it_was(kind, other_process):
    metric = other_process.submit(deepcopy, updated(kind, slice(0, 2))).result()
    args, kwargs = arguments(kind, part=slice(2, 4))
    metric.update(*args, **kwargs)
    args, kwargs = arguments(kind)
    assert metric.compute().item() == pytest.approx(FUNCTIONS[kind](*args, **kwargs))


@every_metric
def test_a_copy_does_not_share_its_sums(kind):
    metric = updated(kind, slice(0, 2))
    before = deepcopy(metric)
    args, kwargs = arguments(kind, part=slice(2, 4))
    metric.update(*args, **kwargs)
    assert before.queries.item() == 2


@every_metric
def test_processes_are_summed(kind):
    other = iter(updated(kind, slice(1, 4)).metric_state.values())
    metric = updated(
        kind,
        slice(0, 1),
        distributed_available_fn=lambda: True,
        dist_sync_fn=lambda state, group: [state, next(other)],
    )
    args, kwargs = arguments(kind)
    assert metric.compute().item() == pytest.approx(FUNCTIONS[kind](*args, **kwargs))


@every_metric
def test_lower_is_better_and_states_add_up(kind):
    assert kind.higher_is_better is False
    assert kind.full_state_update is False


@every_metric
def test_compute_before_any_query_says_what_to_do(kind):
    expected = (
        f"{kind.__name__}.compute(): Expected at least one query, but got none. "
        "Call update() first."
    )
    with pytest.warns(UserWarning, match="before the"), pytest.raises(StateError) as caught:
        kind().compute()
    assert str(caught.value) == expected


def test_the_divergences_differ_by_direction():
    printed = updated(KLUnlearnedOracle, slice(0, 4))
    released = updated(KLOracleUnlearned, slice(0, 4))
    assert math.isfinite(printed.compute())
    assert math.isinf(released.compute())


def test_a_collection_keeps_metrics_apart_that_start_equal():
    collection = MetricCollection([kind() for kind in FUNCTIONS])
    for unlearned in (ORACLE, UNLEARNED):
        collection.update(
            unlearned=unlearned,
            oracle=ORACLE,
            labels=LABELS,
            log_unlearned=logs(unlearned),
            log_oracle=logs(ORACLE),
        )
    for kind, function in FUNCTIONS.items():
        args, kwargs = arguments(kind)
        found = collection.compute()[kind.__name__].item()
        assert found == pytest.approx(function(*args, **kwargs) / 2)
