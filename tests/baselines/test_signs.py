"""Each method's sign of correctness, on digits with one class to forget."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import root
from torch import nn

from erasable.baselines import Task, get_method, unlearn
from erasable.baselines._boundary_shrink import attacked
from erasable.baselines._influence import exact_step, gradient, released_step
from erasable.baselines._munba import bargain
from erasable.baselines._rows import as_rows
from erasable.models import SPMClassifier
from erasable.training import as_images
from erasable.weights import weights_digest


@pytest.fixture(scope="module")
def outcome(problem):
    """Return UA (error on the forget set) and RA (accuracy on the rest) after a method."""

    def measure(name, **settings):
        method = get_method(name, **settings)
        found = unlearn(method, problem.network, forget=problem.forget, retain=problem.retain)
        ua = problem.error(found.model, problem.forget)
        return ua, 1 - problem.error(found.model, problem.retain), found

    return measure


def test_the_original_knows_what_is_to_be_forgotten(problem):
    assert problem.error(problem.network, problem.forget) < 0.05
    assert problem.error(problem.network, problem.retain) < 0.05


def test_gradient_ascent_unfits_and_too_much_of_it_ruins(outcome):
    none, _, _ = outcome("ga", learning_rate=1e-6, batch_norm="frozen")
    some, kept, _ = outcome("ga", learning_rate=1e-2, batch_norm="frozen")
    all_, ruined, _ = outcome("ga", learning_rate=0.02, batch_norm="frozen")
    assert none < 0.1 < some
    assert kept > 0.8
    assert all_ > some
    assert ruined < kept - 0.1


def test_fine_tuning_keeps_what_it_trains_on_and_forgets_more_at_a_larger_rate(outcome):
    slow, kept, _ = outcome("ft", learning_rate=1e-3, batch_size=64)
    fast, still, _ = outcome("ft", learning_rate=0.1, batch_size=64)
    assert min(kept, still) > 0.97
    assert slow < fast


def test_l1_makes_weights_smaller_than_fine_tuning_alone(outcome):
    _, kept, plain = outcome("ft", learning_rate=0.03, batch_size=64)
    _, sparse_kept, sparse = outcome("l1_sparse", learning_rate=0.03, alpha=1e-3, batch_size=64)
    norms = [
        sum(float(p.detach().abs().sum()) for p in f.model.parameters()) for f in (plain, sparse)
    ]
    assert norms[1] < 0.9 * norms[0]
    assert min(kept, sparse_kept) > 0.9


def test_no_penalty_is_fine_tuning(outcome):
    (*_, plain), (*_, sparse) = (
        outcome("ft", batch_size=64, epochs=2),
        outcome("l1_sparse", alpha=0.0, batch_size=64, epochs=2),
    )
    pairs = zip(plain.model.parameters(), sparse.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", ["be", "bs"])
def test_boundary_methods_forget_a_class_and_move_weights_not_only_statistics(outcome, name):
    ua, ra, found = outcome(name, learning_rate=1e-4, batch_norm="frozen", batch_size=64)
    assert ua > 0.8
    assert ra > 0.8
    assert found.figures["batch_norm_drift"] == 0


def test_the_shadow_class_is_gone(outcome):
    *_, found = outcome("be", learning_rate=0.01)
    assert found.model[-1].out_features == 10


def test_the_attack_finds_another_class_and_says_how_often(problem, outcome):
    *_, found = outcome("bs", epochs=1)
    assert found.figures["attack_success"] > 0.3
    *_, weak = outcome("bs", epochs=1, attack_step=0.0)
    assert weak.figures["attack_success"] == pytest.approx(
        problem.error(problem.network, problem.forget)
    )


def test_a_failed_attack_reinforces_only_as_published(problem, outcome):
    wrong, _, _ = outcome("bs", attack_step=0.0, learning_rate=0.01, batch_norm="frozen")
    published, _, _ = outcome(
        "bs", attack_step=0.0, learning_rate=0.01, batch_norm="frozen", is_wrong=False
    )
    assert published <= problem.error(problem.network, problem.forget)
    assert wrong > 0.3


def test_an_attack_steps_up_the_loss_by_the_sign_within_the_pixels(problem):
    images = torch.from_numpy(np.asarray(problem.forget.X[:8], np.float32))[:, None]
    classes = torch.full((8,), 3)
    seen = []

    class Watch(nn.Module):
        def forward(self, inputs):
            seen.append(inputs.detach().clone())
            return problem.network(inputs)

    attacked(Watch(), images, classes, 0.1)
    step = seen[1] - images
    assert float(step.abs().max()) <= 0.1 + 1 / 255
    assert float(seen[1].min()) >= 0
    assert float(seen[1].max()) <= 1
    torch.testing.assert_close(seen[1] * 255, (seen[1] * 255).round(), atol=1e-4, rtol=0)
    losses = [F.cross_entropy(problem.network(x), classes) for x in (images, seen[1])]
    assert losses[1] > losses[0]


# -- SalUn ----------------------------------------------------------------------------------------


def test_salun_forgets_a_class_and_keeps_the_rest(outcome):
    ua, ra, _ = outcome("salun", learning_rate=0.01, batch_size=64)
    assert ua > 0.9
    assert ra > 0.95


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_weights_outside_the_mask_are_those_of_the_original_to_the_bit(problem, outcome, share):
    *_, found = outcome("salun", learning_rate=0.05, share=share, epochs=2, batch_size=64)
    same = [
        (a == b).flatten()
        for a, b in zip(found.model.parameters(), problem.network.parameters(), strict=True)
    ]
    kept = float(torch.cat(same).double().mean())
    assert kept >= 1 - share - 1e-3
    assert kept < 1 - share + 0.1
    assert set(found.account.parts) == {"copy", "mask", "epochs"}


# -- MUNBa ----------------------------------------------------------------------------------------


def test_munba_forgets_and_keeps(outcome):
    ua, ra, _ = outcome("munba", learning_rate=0.01, batch_size=64)
    assert ua > 0.5
    assert ra > 0.9


def vectors(size):
    numbers = st.floats(-5, 5).map(lambda x: round(x, 3))
    return st.lists(numbers, min_size=size, max_size=size)


@given(vectors(4), vectors(4))
def test_the_bargain_solves_its_equations(first, second):
    g, h = torch.tensor(first), torch.tensor(second)
    if g.norm() < 0.1 or h.norm() < 0.1 or F.cosine_similarity(g, h, dim=0) < -0.99:
        return
    alpha = np.array(bargain([g[:1], g[1:]], [h[:1], h[1:]]))
    G = torch.stack([g, h]).double().numpy()
    np.testing.assert_allclose(alpha * (G @ G.T @ alpha), 1, rtol=1e-5)


def test_the_bargain_is_what_an_independent_solver_finds():
    rng = np.random.default_rng(0)
    for _ in range(20):
        G = rng.normal(size=(2, 6))
        gram = G @ G.T
        found = root(lambda a, gram=gram: np.exp(a) * (gram @ np.exp(a)) - 1, np.zeros(2))
        alpha = bargain(*([torch.from_numpy(g)] for g in G))
        np.testing.assert_allclose(alpha, np.exp(found.x), rtol=1e-6)


@pytest.mark.parametrize(
    ("g", "h"), [([1.0, 0], [-1.0, 0]), ([0.0, 0], [1.0, 0]), ([1.0, 0], [0.0, 0])]
)
def test_without_a_bargain_the_published_fallback_is_taken(g, h):
    assert bargain([torch.tensor(g)], [torch.tensor(h)]) == (1.0, 0.1)


def test_orthogonal_gradients_are_no_special_case():
    """The published form divides zero by zero here."""
    alpha = bargain([torch.tensor([2.0, 0])], [torch.tensor([0, 4.0])])
    np.testing.assert_allclose(alpha, [0.5, 0.25])


# -- IU -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows_and_v():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(12, 30, generator=generator, dtype=torch.float64)
    return rows, torch.randn(30, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("damping", [0.5, 10.0, 1000.0])
def test_exact_influence_is_a_direct_solve(rows_and_v, damping):
    rows, v = rows_and_v
    fisher = torch.eye(30, dtype=torch.float64) + rows.T @ rows / damping
    torch.testing.assert_close(exact_step(rows, v, damping), torch.linalg.solve(fisher, v))


def test_exact_influence_is_the_recursion_of_sherman_and_morrison(rows_and_v):
    rows, v = rows_and_v
    os, ds, k = [], [], v.clone()
    for g in rows:
        o = g - sum((o * (o @ g) / d for o, d in zip(os, ds, strict=True)), torch.zeros(30))
        d = 10.0 + g @ o
        k = k - o * (o @ v) / d
        os.append(o)
        ds.append(d)
    torch.testing.assert_close(exact_step(rows, v, 10.0), k)


def test_the_released_recursion_only_knows_the_first_row(rows_and_v):
    rows, v = rows_and_v
    difference = released_step(rows, v, 10.0) - v
    cosine = F.cosine_similarity(difference, rows[0], dim=0).abs()
    assert float(cosine) == pytest.approx(1)
    assert not torch.allclose(released_step(rows, v, 10.0), exact_step(rows, v, 10.0))


@pytest.mark.parametrize("variant", ["exact", "released"])
def test_influence_forgets_more_the_longer_its_step(outcome, variant):
    steps = (0.1, 3.0, 30.0)
    found = [outcome("iu", alpha=a, variant=variant, samples=20)[:2] for a in steps]
    assert found[0][0] <= found[1][0] <= found[2][0]
    assert found[2][0] > 0.9
    assert found[0][1] >= found[2][1]


def test_influence_raises_the_forget_loss_first(problem, outcome):
    *_, found = outcome("iu", alpha=0.05, samples=20)
    images = torch.from_numpy(np.asarray(problem.forget.X, np.float32))[:, None]
    classes = torch.from_numpy(problem.forget.y)
    with torch.no_grad():
        before, after = (
            F.cross_entropy(n(images), classes) for n in (problem.network, found.model)
        )
    assert after > before


def test_a_gradient_is_that_of_the_mean_loss(problem):
    images = torch.rand(3, 1, 8, 8)
    classes = torch.tensor([0, 1, 2])
    parameters = list(problem.network.parameters())
    rows = as_rows(problem.forget, list(range(10)))
    task = Task(problem.network, rows, rows, 10)
    whole = gradient(task, images, classes, parameters)
    each = [gradient(task, images[i : i + 1], classes[i : i + 1], parameters) for i in range(3)]
    torch.testing.assert_close(whole, torch.stack(each).mean(0))


# -- deletion and retraining ----------------------------------------------------------------------


def test_muting_silences_a_class_and_keeps_the_odds_between_the_others(problem):
    found = unlearn("mute", problem.network, forget=problem.forget, retain=problem.retain).model
    images = torch.from_numpy(as_images(np.asarray(problem.test.X, np.float32)))
    with torch.no_grad():
        before, after = problem.network(images), found(images)
    gone = int(problem.forget.y[0])
    others = [label for label in range(10) if label != gone]
    torch.testing.assert_close(after[:, others], before[:, others], rtol=0, atol=0)
    assert (after.softmax(1)[:, gone] < 1e-7).all()
    assert problem.error(found, problem.forget) == 1


def test_muting_changes_nothing_for_classes_that_go_on(problem):
    some = problem.retain.take(range(20))
    rest = problem.retain.take(range(20, len(problem.retain)))
    found = unlearn("mute", problem.network, forget=some, retain=rest).model
    assert weights_digest(found) == weights_digest(problem.network)


def test_a_head_without_bias_can_be_muted(problem):
    network = copy.deepcopy(problem.network)
    network[-1] = torch.nn.Linear(128, 10, bias=False)
    found = unlearn("mute", network, forget=problem.forget, retain=problem.retain).model
    assert problem.error(found, problem.forget) == 1


def test_a_head_whose_logits_are_all_low_is_muted_below_them(problem):
    network = copy.deepcopy(problem.network)
    with torch.no_grad():
        network[-1].bias -= 50
    found = unlearn("mute", network, forget=problem.forget, retain=problem.retain).model
    assert problem.error(found, problem.forget) == 1
    assert problem.error(found, problem.retain) == problem.error(network, problem.retain)


def test_deletion_and_retraining_forget_a_class_for_sure(problem):
    rows = problem.retain.take(range(200))
    gone = problem.forget.take(range(20))
    X, y = np.concatenate([rows.X, gone.X]), np.concatenate([rows.y, gone.y])
    options = {"widths": [8, 8], "dim": 16}
    model = SPMClassifier(
        encoder="small_cnn", encoder_options=options, epochs=2, batch_size=64, random_state=0
    ).fit(X, y, ids=[*rows.ids, *gone.ids])
    for name in ("deletion", "retrain"):
        found = unlearn(name, model, forget=gone, retain=rows)
        assert not (found.model.predict(gone.X) == gone.y).any()
