"""Unlearning a class of a diffusion model: identities, masks, and what each method should do."""

import numpy as np
import pytest
import torch

from erasable.baselines import Budget, DivergedError
from erasable.baselines.generation import (
    DIFFUSION_METHODS,
    DiffusionRun,
    DiffusionTask,
    SelectiveAmnesia,
    _base,
    get_diffusion_method,
    unlearn_class,
)
from erasable.data import Split
from erasable.errors import ArgumentError, RowIdError
from erasable.models import DDPM
from erasable.training import Inputs, mean_weight
from models.generation_toys import QUARTERS, SMALL, brightest, quarters

SHORT = {
    "ft": {"steps": 3},
    "sa": {"steps": 3, "per_class": 4, "fisher_images": 3, "fisher_steps": 5},
    "salun": {"steps": 3},
    "sfron": {"steps": 3},
    "erasediff": {"steps": 3, "rounds": 2, "inner_steps": 2},
}
every = pytest.mark.parametrize("name", list(DIFFUSION_METHODS))


def rows(count=128):
    X, y = quarters(count)
    return Split(X, np.array(y, object), ids=[str(i) for i in range(count)])


@pytest.fixture(scope="module")
def original():
    """A diffusion model that draws what it is asked for."""
    model = DDPM(**{**SMALL, "steps": 300, "learning_rate": 2e-3, "average": 0.98})
    return model.fit(*quarters(256))


def weights(model):
    return {name: tensor.clone() for name, tensor in model.network_.state_dict().items()}


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def drawn(model, labels, steps=20):
    generator = torch.Generator().manual_seed(0)
    return model.sample(labels, num_inference_steps=steps, generator=generator)


@every
@pytest.mark.parametrize("nothing", [{"steps": 0}, {"learning_rate": 0.0}])
def test_nothing_to_do_returns_the_original(original, name, nothing):
    method = get_diffusion_method(name, **{**SHORT[name], **nothing})
    found = unlearn_class(original, rows(), "b", method)
    assert same(weights(found.model), weights(original))


@every
def test_nothing_to_forget_changes_nothing(original, name):
    data = rows()
    others = data.where(np.array([label != "b" for label in data.y]))
    found = unlearn_class(original, others, "b", get_diffusion_method(name, **SHORT[name]))
    assert same(weights(found.model), weights(original))


@every
def test_a_rate_next_to_nothing_moves_next_to_nothing(original, name):
    method = get_diffusion_method(name, **{**SHORT[name], "learning_rate": 1e-12})
    found, before = weights(unlearn_class(original, rows(), "b", method).model), weights(original)
    for key, tensor in found.items():
        torch.testing.assert_close(tensor, before[key], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("sa", {"per_class": 0}, "per_class to be an int ≥ 1"),
        ("sa", {"fisher_steps": 0}, "fisher_steps to be an int ≥ 1"),
        ("salun", {"share": 2.0}, "share from 0 to 1"),
        ("sfron", {"fisher_images": 0}, "fisher_images to be an int ≥ 1"),
        ("erasediff", {"inner_steps": -1}, "inner_steps to be an int ≥ 0"),
        ("ft", {"drop": 5}, "drop from 0 to 1"),
    ],
)
def test_wrong_settings_are_refused(name, settings, message):
    with pytest.raises(ArgumentError, match=message):
        get_diffusion_method(name, **settings)


def test_a_budget_of_passes_is_refused(original):
    method = get_diffusion_method("ft", steps=1)
    with pytest.raises(ArgumentError, match="epochs or seconds"):
        unlearn_class(original, rows(), "b", method, budget=Budget(passes=1))


@every
def test_the_original_is_never_changed(original, name):
    before = weights(original)
    found = unlearn_class(original, rows(), "b", get_diffusion_method(name, **SHORT[name]))
    assert same(weights(original), before)
    assert not same(weights(found.model), before)
    assert found.account.seconds > 0


@every
def test_the_same_seed_gives_the_same_weights(original, name):
    method = get_diffusion_method(name, **SHORT[name])
    first, second = (unlearn_class(original, rows(), "b", method).model for _ in range(2))
    assert same(weights(first), weights(second))


def test_an_edit_ends_in_the_running_mean_of_its_steps(original, monkeypatch):
    def edited(steps):
        method = get_diffusion_method("ft", steps=steps, learning_rate=1e-3)
        return weights(unlearn_class(original, rows(), "b", method).model)

    found = edited(3)
    with monkeypatch.context() as patch:
        patch.setattr(_base, "mean_weight", lambda step, average: 1.0)
        as_they_are = [edited(steps) for steps in (1, 2, 3)]
    for name, expected in weights(original).items():
        for step, after in enumerate(as_they_are):
            expected += mean_weight(step, original.average) * (after[name] - expected)
        torch.testing.assert_close(found[name], expected)
    assert not same(found, as_they_are[-1])


def test_weights_outside_the_mask_stay_to_the_bit(original):
    method = get_diffusion_method("salun", steps=5, share=0.3)
    found = weights(unlearn_class(original, rows(), "b", method).model)
    before = weights(original)
    is_same = torch.cat([(found[n] == before[n]).flatten() for n in before])
    assert 0.699 < is_same.float().mean() < 0.8


def task_of(original, **options):
    """Return a task on a copy of the original's network."""
    data = rows()
    is_b = np.array([label == "b" for label in data.y])
    places = original.places(data.y[~is_b].tolist())
    import copy

    return DiffusionTask(
        copy.deepcopy(original.network_),
        Inputs(data.X[is_b]),
        Inputs(data.X[~is_b]),
        places,
        1,
        4,
        lambda classes, seed: torch.zeros(len(classes), 1, 8, 8),
        **options,
    )


def test_images_vary_as_they_did_for_the_original(original):
    method = SelectiveAmnesia(batch_size=64)
    for how in ("none", "flip"):
        run = DiffusionRun(method, task_of(original, augmentation=how))
        known = {x.tobytes() for x in run.images(run.task.retain, slice(None)).numpy()}
        images, _ = run.retain_batch()
        is_known = [x.tobytes() in known for x in images.numpy()]
        assert all(is_known) if how == "none" else 10 < sum(is_known) < 54


def test_the_fisher_information_sums_over_time_steps_before_it_squares(original):
    method = SelectiveAmnesia(per_class=1, fisher_images=1, fisher_steps=3, batch_size=2, steps=1)
    run = DiffusionRun(method, task_of(original))
    image = torch.rand(1, 1, 8, 8) * 2 - 1
    run.kept.update(images=image, classes=torch.tensor([2]))
    found = method._fisher(run)
    again = DiffusionRun(method, task_of(original))
    torch.randperm(1, generator=again.generator)  # what chose the image
    slopes = [torch.zeros_like(p) for p in again.parameters]
    again.network.eval()
    for times in (torch.tensor([0, 500]), torch.tensor([999])):
        noisy, noise = again.noisy_at(image.expand(len(times), -1, -1, -1), times)
        seen = again.network(noisy, times, torch.full((len(times),), 2))
        loss = 3072 * ((seen - noise) ** 2).flatten(1).mean(dim=1).sum()
        for slope, more in zip(slopes, again.gradients(loss), strict=True):
            slope += more
    for ours, slope in zip(found, slopes, strict=True):
        torch.testing.assert_close(ours, (slope * 1000 / 3) ** 2, rtol=1e-3, atol=1e-3)


def test_salun_may_change_the_weights_with_the_largest_gradients(original):
    method = get_diffusion_method("salun", share=0.1, batch_size=8)
    run, again = (DiffusionRun(method, task_of(original)) for _ in range(2))
    method.prepare(run)
    again.network.eval()
    sums = 0.0
    images = again.images(again.task.forget, slice(None))
    for part in torch.split(images, 8):
        classes = torch.full((len(part),), again.task.target)
        slopes = again.gradients(again.guided_loss(part, classes, 2.0), clip=1.0)
        sums = sums + torch.cat([slope.flatten() for slope in slopes])
    mask = torch.cat([mask.flatten() for mask in run.masks])
    assert int(mask.sum()) == round(0.1 * len(mask))
    assert sums.abs()[mask].min() >= sums.abs()[~mask].max()


def test_sfron_goes_up_on_masked_weights_and_repairs_all(original, monkeypatch):
    method = get_diffusion_method("sfron", steps=4, batch_size=8, threshold=1.5)
    run = DiffusionRun(method, task_of(original))
    method.prepare(run)
    masks = torch.cat([mask.flatten() for mask in run.masks])
    assert 0.01 < masks.float().mean() < 0.99
    taken, descend = [], DiffusionRun.descend

    def noted(self, loss, **options):
        start = torch.cat([p.detach().flatten() for p in self.parameters])
        value = descend(self, loss, **options)
        end = torch.cat([p.detach().flatten() for p in self.parameters])
        taken.append((float(loss.detach()), start != end))
        return value

    monkeypatch.setattr(DiffusionRun, "descend", noted)
    run.network.train()
    method.step(run, 0, 4)
    (up, is_moved), (down, is_repaired) = taken
    assert up < 0 < down
    assert not is_moved[~masks].any()
    assert is_moved[masks].float().mean() > 0.5
    assert is_repaired[~masks].any()


def test_sfron_weighs_small_losses_more_and_less_and_less_of_all(original, monkeypatch):
    method = get_diffusion_method("sfron", steps=4, batch_size=8)
    taken = []
    monkeypatch.setattr(
        DiffusionRun, "descend", lambda self, loss, **_: taken.append(float(loss.detach())) or 0.0
    )
    monkeypatch.setattr(
        DiffusionRun, "losses", lambda self, seen, noise: torch.tensor([1.0, 4.0]) + 0 * seen.sum()
    )
    run = DiffusionRun(method, task_of(original))
    for step in range(4):
        method.step(run, step, 4)
    # Weights 1 and 1/2, scaled to a sum of 2: the mean of 4/3 · 1 and 2/3 · 4 is 2.
    wanted = [-10 * 2 * (1 + np.cos(np.pi * step / 4)) / 2 for step in range(4)]
    np.testing.assert_allclose(taken[::2], wanted, rtol=1e-5)


def test_the_inner_loop_of_erasediff_leaves_the_weights_alone(original):
    method = get_diffusion_method("erasediff", inner_steps=4, learning_rate=1e-2, batch_size=8)
    run = DiffusionRun(method, task_of(original))
    before = {key: tensor.clone() for key, tensor in run.network.state_dict().items()}
    first = method._inner(run)
    assert same(before, run.network.state_dict())
    run.descend(method._forget_loss(run))
    assert not same(before, run.network.state_dict())  # a step alone does move them
    assert first > 0


def test_stiff_weights_stay_where_selective_amnesia_found_them(original):
    def moved(elastic):
        method = get_diffusion_method(
            "sa", steps=40, learning_rate=1e-3, per_class=4, elastic=elastic, **_FISHER
        )
        found = weights(unlearn_class(original, rows(), "b", method).model)
        before = weights(original)
        return sum(float((found[key] - before[key]).abs().sum()) for key in before)

    assert moved(1e6) < 0.5 * moved(1e-10)


def test_salun_turns_the_class_into_the_next_one(original):
    method = get_diffusion_method("salun", steps=120, learning_rate=1e-3, batch_size=32)
    model = unlearn_class(original, rows(), "b", method).model
    found = brightest(drawn(model, ["b"] * 16))
    assert np.mean([label == "c" for label in found]) > 0.7
    others = [label for label in QUARTERS if label != "b"] * 6
    kept = brightest(drawn(model, others))
    assert np.mean([a == b for a, b in zip(others, kept, strict=True)]) > 0.7


def test_selective_amnesia_turns_the_class_into_noise(original):
    method = get_diffusion_method(
        "sa", steps=200, learning_rate=2e-3, batch_size=32, per_class=32, elastic=1e-10, **_FISHER
    )
    model = unlearn_class(original, rows(), "b", method).model
    contrast = [_contrast(drawn(model, [label] * 16)) for label in ("b", "a")]
    assert contrast[0] < 0.6 * contrast[1]


_FISHER = {"fisher_images": 8, "fisher_steps": 10}


def _contrast(images):
    means = images[:, 0].reshape(-1, 2, 4, 2, 4).mean(axis=(2, 4)).reshape(-1, 4)
    return float((means.max(axis=1) - means.min(axis=1)).mean())


@pytest.mark.parametrize("name", ["sfron", "erasediff"])
def test_the_class_is_drawn_less_often(original, name):
    settings = {"steps": 60, "learning_rate": 1e-3, "batch_size": 32}
    if name == "erasediff":
        settings |= {"rounds": 2, "inner_steps": 5, "weight": 1.0}
    model = unlearn_class(original, rows(), "b", get_diffusion_method(name, **settings)).model
    asked = ["b"] * 16
    before = np.mean([label == "b" for label in brightest(drawn(original, asked))])
    after = np.mean([label == "b" for label in brightest(drawn(model, asked))])
    assert before > 0.9
    assert after < 0.7


def test_a_weight_by_agreement_is_never_negative(original):
    method = get_diffusion_method("erasediff", **{**SHORT["erasediff"], "weight": -1.0})
    run = DiffusionRun(method, task_of(original))
    loss = run.denoising_loss(*run.retain_batch())
    assert method._weight(run, loss, loss) == 0  # they agree wholly
    assert method._weight(run, loss, -loss) == pytest.approx(1.1)


def test_a_budget_of_time_ends_an_edit(original):
    method = get_diffusion_method("salun", steps=10_000)
    found = unlearn_class(original, rows(), "b", method, budget=Budget(seconds=0.2))
    assert not found.is_complete


def test_divergence_is_told(original):
    method = get_diffusion_method("sfron", steps=20, learning_rate=1e30)
    with pytest.raises(DivergedError, match="sfron has diverged"):
        unlearn_class(original, rows(), "b", method)


def test_what_cannot_be_is_refused(original):
    with pytest.raises(ArgumentError, match="'ft', 'sa', 'salun', 'sfron', 'erasediff'"):
        get_diffusion_method("magic")
    with pytest.raises(ArgumentError, match=r"sa: Expected drop to be 0, but got 0\.1"):
        SelectiveAmnesia(drop=0.1)
    with pytest.raises(ArgumentError, match="steps to be an int"):
        get_diffusion_method("sa", steps=-1)
    with pytest.raises(RowIdError, match="but got 'z'"):
        unlearn_class(original, rows(), "z", get_diffusion_method("salun"))
    only = rows().where(np.array([label == "b" for label in rows().y]))
    with pytest.raises(ArgumentError, match="other classes"):
        unlearn_class(original, only, "b", get_diffusion_method("salun", steps=1))
