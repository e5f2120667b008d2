"""The generator: drawing, forgetting, remembering, saving, and what it refuses."""

import copy
import json
import shutil

import numpy as np
import pytest
import torch
from diffusers import DDPMPipeline, UNet2DModel
from safetensors.torch import load_file, save_file

from diffusion.references import one_step
from erasable import SPMClassifier, SPMGenerator, load
from erasable.diffusion import MemoryUNet, make_scheduler
from erasable.diffusion._noise import drawing_times
from erasable.errors import ArgumentError, RowIdError, StateError, StoreError
from erasable.fusion import _additive_kernels
from erasable.models import DDPM, GMM, _consistency
from erasable.models._consistency import Consistency
from erasable.training import Inputs
from models.generation_toys import QUARTERS, SMALL, Eye, brightest, generator, quarters, twin
from store.format_1 import save_as_format_1

ALL = list(QUARTERS) * 2


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def drawn(model, labels=ALL, *, seed=0, steps=5, **options):
    return model.sample(labels, num_inference_steps=steps, generator=seeded(seed), **options)


@pytest.fixture(scope="module")
def learnt():
    """A generator that draws what it is asked for."""
    model = SPMGenerator(
        **{**SMALL, "steps": 300, "learning_rate": 2e-3, "average": 0.98, "batch_size": 48}
    )
    return model.fit(*quarters(256), judge=Eye())


# -- what is learnt ----------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [20, 200])
def test_it_draws_the_class_that_is_asked_for_and_more_steps_are_no_worse(learnt, steps):
    asked = list(QUARTERS) * 8
    found = brightest(drawn(learnt, asked, steps=steps))
    assert np.mean([a == b for a, b in zip(asked, found, strict=True)]) > 0.9


def test_swapping_the_rows_of_two_classes_swaps_what_is_drawn(learnt):
    X, y = quarters(256)
    swapped = {"a": "d", "d": "a", "b": "b", "c": "c"}
    other = SPMGenerator(**SMALL)
    other.set_params(**learnt.get_params()).set_params(steps=0)
    other.input_shape_ = learnt.input_shape_
    other._begin(0)
    other.network_.load_state_dict(learnt.network_.state_dict())
    other.remember(X, [swapped[label] for label in y])
    asked = list(QUARTERS) * 8
    found = brightest(drawn(other, asked, steps=20))
    assert np.mean([swapped[a] == b for a, b in zip(asked, found, strict=True)]) > 0.9


def test_an_embedding_that_may_remember_a_class_can_be_asked_after_its_rows_are_gone():
    model = generator(labels="plain")
    with_rows = model.sample(["a"] * 4, num_inference_steps=3, generator=seeded())
    model.forget(classes=["c"])

    def ask(**options):
        noise = seeded()
        return model.sample(
            ["c"] * 4, num_inference_steps=3, stand_in="a", generator=noise, **options
        )

    np.testing.assert_array_equal(ask(), with_rows)  # told the class that stands in
    assert (ask(class_numbers=[2] * 4) != with_rows).any()
    np.testing.assert_array_equal(ask(class_numbers=[0] * 4), with_rows)
    for wrong in ([4] * 4, [-2] * 4, [0] * 3, [0.5] * 4):
        with pytest.raises(ArgumentError, match="ints from -1 to 3"):
            ask(class_numbers=wrong)


def test_an_oracle_keeps_the_numbers_of_classes():
    X, y = quarters(64)
    kept = [place for place, label in enumerate(y) if label != "b"]
    labels = [y[place] for place in kept]
    oracle = SPMGenerator(**SMALL, steps=2, labels="plain").fit(X[kept], labels, classes=QUARTERS)
    assert oracle.numbers_.names == ("a", None, "c", "d")
    assert "b" not in oracle.memory.classes
    with pytest.raises(ArgumentError, match="labels among classes"):
        SPMGenerator(**SMALL, steps=2).fit(X, y, classes=["a", "b"])


def test_an_oracle_without_the_last_class_learns_every_permuted_number():
    X, y = quarters(64)
    kept = [place for place, label in enumerate(y) if label != QUARTERS[-1]]
    labels = [y[place] for place in kept]
    first, last = (
        SPMGenerator(**{**SMALL, "steps": steps}, labels="permuted")
        .fit(X[kept], labels, classes=QUARTERS)
        .network_.class_embedding.weight
        for steps in (0, 8)
    )
    assert (first != last).any(dim=1)[: len(QUARTERS)].all()


def told(model, *labels):
    """Return the numbers that the weights are told of classes."""
    return model.reading(list(labels), stand_in=None, rows_per_class=4).labels.tolist()


def test_where_numbers_are_permuted_a_class_that_is_remembered_takes_one_that_is_free():
    X, y = quarters(64)
    model = generator(labels="permuted", ids=range(64))
    rows = [place for place, label in enumerate(y) if label == "c"]
    model.forget(classes=["c"])
    assert model.numbers_.names == ("a", "b", None, "d")
    model.remember(X[rows], ["new"] * len(rows), ids=rows, reinstate=True)
    assert told(model, "a", "new") == [0, 2]
    model.remember(X[:2], ["one too many"] * 2, ids=[100, 101])
    assert told(model, "a", "new", "one too many") == [0, 2, -1]
    model.forget(classes=["d"])
    assert told(model, "a", "new", "one too many") == [0, 2, 3]
    assert model.numbers_.names == ("a", "b", None, None)


def test_a_plain_embedding_does_not_number_a_class_that_is_remembered():
    X, y = quarters(64)
    model = generator(labels="plain", ids=range(64))
    rows = [place for place, label in enumerate(y) if label == "c"]
    model.forget(classes=["c"])
    model.remember(X[rows], ["c"] * len(rows), ids=rows, reinstate=True)
    assert model.numbers_.names == ("a", "b", None, "d")
    assert told(model, "b", "c", "d") == [1, -1, 3]


def test_a_label_that_was_never_trained_is_drawn_from_its_rows(learnt):
    X, _ = quarters(64, seed=5)
    model = copy.deepcopy(learnt)
    model.remember(X[3::4], ["new"] * 16, ids=[f"new-{i}" for i in range(16)])
    assert brightest(drawn(model, ["new"] * 8, steps=20)) == ["d"] * 8


def test_consistency_is_noted_while_it_learns_and_at_the_end(monkeypatch):
    monkeypatch.setattr(_consistency, "_EVERY", 10)
    monkeypatch.setattr("erasable.models._spm_generator._EVERY", 5)
    model = SPMGenerator(**{**SMALL, "steps": 17, "batch_size": 8, "channels": (4, 4)})
    model.fit(*quarters(16), judge=Eye())
    noted = {e["step"]: e["consistency"] for e in model.history_ if "consistency" in e}
    assert list(noted) == [10, 17]
    assert all(0 <= share <= 1 for share in noted.values())


def test_consistency_asks_for_classes_that_have_rows():
    class Counter:
        def predict(self, images):
            self.count = len(images)
            return np.array(["a"] * len(images), object)

    X, y = quarters(16)
    places = torch.tensor([place for place, label in enumerate(y) if label != "b"])
    classes = torch.tensor([QUARTERS.index(y[place]) for place in places])
    judge, inputs = Counter(), Inputs(X[places.numpy()])
    ask = Consistency(judge, inputs, classes, list(QUARTERS), last=500, is_following=False)
    found = ask(MemoryUNet((1, 8, 8), channels=(4, 4), layers=1).eval(), 500)
    assert judge.count == 12  # four images of three classes
    assert found["consistency"] == pytest.approx(1 / 3)


# -- forgetting --------------------------------------------------------------------------------


def test_forgetting_a_class_changes_no_pixel_of_the_others():
    model = generator()
    before = drawn(model)
    receipt = model.forget(classes=["b"])
    assert receipt.level == "memory"
    after = drawn(model, stand_in="a")
    is_b = np.array([label == "b" for label in ALL])
    np.testing.assert_array_equal(after[~is_b], before[~is_b])
    assert np.abs(after[is_b] - before[is_b]).max() > 1e-3


def test_forgetting_changes_no_pixel_of_other_classes_whatever_their_sizes():
    X, y = quarters(96)
    kept = [i for i, label in enumerate(y) if label != "b" or i < 37]  # 10 rows beside 24 each
    model = SPMGenerator(**SMALL, steps=2)
    model.fit(X[kept], [y[i] for i in kept], ids=kept)
    before = drawn(model)
    is_b = np.array([label == "b" for label in ALL])
    model.forget(ids=[1, 5, 9])
    np.testing.assert_array_equal(drawn(model)[~is_b], before[~is_b])
    model.forget(classes=["b"])
    np.testing.assert_array_equal(drawn(model, stand_in="c")[~is_b], before[~is_b])


def test_forgetting_rows_draws_as_if_they_had_never_been_stored():
    model, other = generator(ids=range(64)), generator(ids=range(64))
    model.forget(ids=range(0, 64, 3))
    X, y = quarters(64)
    keep = [i for i in range(64) if i % 3]
    fresh = SPMGenerator(**{**SMALL, "steps": 0})
    fresh.input_shape_ = other.input_shape_
    fresh._begin(0)
    fresh.network_.load_state_dict(other.network_.state_dict())
    fresh.remember(X[keep], [y[i] for i in keep], ids=keep)
    np.testing.assert_allclose(drawn(model), drawn(fresh), atol=1e-5)


def test_a_forgotten_row_is_replaced_by_the_next_one_only():
    model = generator(ids=[f"row-{i}" for i in range(64)], rows_per_class=4)
    before = model.reading(["a"], stand_in=None, rows_per_class=4)
    ids = [model.memory.record(int(p)).id for p in before.rows]
    model.forget(ids=[ids[1]])
    after = model.reading(["a"], stand_in=None, rows_per_class=4)
    left = [model.memory.record(int(p)).id for p in after.rows]
    assert left[:3] == [ids[0], ids[2], ids[3]]
    assert len(left) == 4


def test_remembered_rows_are_forgotten_exactly():
    model = generator(ids=range(64))
    X, _ = quarters(4, seed=9)
    model.remember(X, ["e"] * 4, ids=["new-0", "new-1", "new-2", "new-3"])
    assert model.forget(ids=["new-0"]).level == "exact"
    assert model.forget(ids=[0]).level == "memory"


def test_rows_come_and_go_by_group():
    model = generator(groups=["user-1"] * 4 + ["user-2"] * 60)
    assert model.forget(groups=["user-1"]).rows == 4


# -- drawing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"branch": "follow"}, {"labels": "permuted"}])
def test_the_same_generator_draws_the_same_images(options):
    model = generator(**options)
    np.testing.assert_array_equal(drawn(model), drawn(model))
    assert np.abs(drawn(model) - drawn(model, seed=1)).max() > 1e-3


@pytest.mark.parametrize("branch", ["fixed", "follow"])
@pytest.mark.parametrize("guidance", [0.0, 0.7])
def test_drawing_equals_encoding_all_rows_in_every_step(branch, guidance):
    model = generator(branch=branch, rows_per_class=3)
    found = drawn(model, guidance_scale=guidance)
    np.testing.assert_allclose(found, slowly(model, guidance), atol=1e-4)


@pytest.mark.parametrize("kernel", ["eager", "compiled"])
def test_fifty_steps_of_a_trained_network_equal_the_unfused_formula(learnt, monkeypatch, kernel):
    if kernel == "compiled" and _additive_kernels._compiler_problem("cpu") is not None:
        pytest.skip("needs a C++ compiler")
    monkeypatch.setattr(learnt, "kernel", kernel)
    found = drawn(learnt, steps=50, rows_per_class=20, guidance_scale=0.3)
    monkeypatch.setattr("erasable.fusion._additive.additive_attention", unfused)
    X, _ = quarters(256)
    wanted = slowly(learnt, 0.3, steps=50, images=X, rows_per_class=20)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def unfused(queries, rows, weight, **_):
    """Mix rows by the formula, with every pair in memory at once."""
    return (torch.relu(queries[:, None] + rows) @ weight).softmax(dim=1) @ rows


def slowly(model, guidance, *, steps=5, images=None, rows_per_class=3):
    """Draw without keeping or sharing anything: one image at a time, rows encoded every time."""
    network, times = model.network_, torch.tensor(drawing_times(steps))
    noise = torch.randn((len(ALL), *model.input_shape_), generator=seeded())
    X = quarters(64)[0] if images is None else images
    found = []
    for image, label in zip(noise, ALL, strict=True):
        chosen = model.reading([label], stand_in=None, rows_per_class=rows_per_class).rows
        ids = [model.memory.record(int(p)).id for p in chosen]
        rows = torch.from_numpy(X[ids]).float()[:, None] / 255 * 2 - 1
        zeros = torch.zeros(len(rows), dtype=torch.long)
        image = image[None]
        for timestep, following in zip(times, [*times[1:].tolist(), -1], strict=True):
            row_times = zeros if model.branch == "fixed" else timestep.expand(len(rows))
            with torch.no_grad():
                seen, blind = (
                    network(
                        image,
                        timestep[None],
                        torch.tensor([reads]),
                        rows=rows,
                        row_times=row_times,
                        row_classes=zeros,
                    )
                    for reads in (0, -1)
                )
            noise_seen = (1 + guidance) * seen - guidance * blind
            image = one_step(image, noise_seen, timestep, following)
        found.append(((image[0] + 1) / 2).clamp(0, 1).numpy())
    return np.stack(found)


def test_batches_change_an_image_by_rounding_only():
    model = generator()
    np.testing.assert_allclose(drawn(model, batch_size=3), drawn(model), atol=1e-5)


def test_it_is_called_as_a_pipeline_is():
    model = generator()
    asked = {"num_inference_steps": 3, "generator": seeded()}
    pictures = model(class_labels=["a", "b"], **asked).images
    assert [picture.size for picture in pictures] == [(8, 8), (8, 8)]
    arrays = model("a", num_inference_steps=3, generator=seeded(), output_type="np").images
    assert arrays.shape == (1, 8, 8, 1)
    tensor = model("a", num_inference_steps=3, generator=seeded(), output_type="pt").images
    assert tensor.shape == (1, 1, 8, 8)


def test_colours_stay_colours():
    X = np.random.default_rng(0).integers(0, 255, (16, 8, 8, 3)).astype(np.uint8)
    model = SPMGenerator(**SMALL, steps=1).fit(X, ["a", "b"] * 8)
    assert model("a", num_inference_steps=2).images[0].mode == "RGB"


# -- votes -------------------------------------------------------------------------------------


def test_votes_name_rows_of_the_asked_class_and_sum_to_one():
    model = generator(ids=[f"row-{i}" for i in range(64)])
    images = drawn(model, ["a", "b", "a"])
    votes = model.votes(images, ["a", "b", "a"], top=16)
    assert votes.labels[:, 0].tolist() == ["a", "b", "a"]
    np.testing.assert_allclose(votes.weights.sum(axis=1) + votes.rest, 1)
    np.testing.assert_allclose(votes.patches.sum(axis=(2, 3)), votes.weights)
    assert (np.diff(votes.weights, axis=1) <= 0).all()
    np.testing.assert_allclose(votes.rest, 0, atol=1e-6)  # a class has 16 rows


def test_votes_are_what_patches_read_on_average(monkeypatch):
    monkeypatch.setattr("erasable.models._patch_votes._TIMES", 1)  # no noise
    model = generator(ids=[f"row-{i}" for i in range(64)], rows_per_class=3)
    X, y = quarters(64)
    votes = model.votes(X[[4, 1]], ["a", "b"], top=3)
    network, zeros = model.network_, torch.zeros(1, dtype=torch.long)
    fusion = network.fusion
    noise = torch.randn((1, 8, 8), generator=seeded())  # that of every image

    @torch.no_grad()
    def patches(place, noisy=None):
        image = torch.from_numpy(X[[place]]).float()[:, None] / 255 * 2 - 1
        if noisy is not None:
            image = make_scheduler().add_noise(image, noisy[None], zeros)
        return network.encode(image, zeros)[0]

    for asked, place in enumerate((4, 1)):
        queries = fusion.to_query(patches(place, noise))
        for rank in range(3):
            rows = [int(name.removeprefix("row-")) for name in votes.ids[asked]]
            keys = torch.cat([fusion.project(patches(row)[None])[0] for row in rows])
            with torch.no_grad():
                scores = torch.relu(queries[:, None] + keys) @ fusion.weight
            read = scores.softmax(dim=1).mean(dim=0).view(3, *model.patch_grid)
            np.testing.assert_allclose(votes.patches[asked, rank], read[rank], atol=1e-4)
            assert y[rows[rank]] == "ab"[asked]


def test_votes_do_not_depend_on_the_rest_of_the_call(monkeypatch):
    monkeypatch.setattr("erasable.models._patch_votes._AT_ONCE", 2)
    model = generator(ids=[f"row-{i}" for i in range(64)])
    images = drawn(model, ["a", "b", "b"])
    votes = model.votes(images, ["a", "b", "b"], top=16)
    alone = model.votes(images[2:], ["b"], top=16)
    assert votes.ids[2].tolist() == alone.ids[0].tolist()
    np.testing.assert_allclose(votes.weights[2], alone.weights[0], atol=1e-6)
    np.testing.assert_allclose(votes.patches[2], alone.patches[0], atol=1e-6)


def test_a_forgotten_row_has_no_vote():
    model = generator(ids=[f"row-{i}" for i in range(64)])
    images = drawn(model, ["a"])
    gone = model.votes(images, ["a"], top=1).ids[0, 0]
    model.forget(ids=[gone])
    assert gone not in model.votes(images, ["a"], top=16).ids[0].tolist()


# -- saving ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"branch": "follow"}, {"labels": "plain"}])
def test_a_loaded_generator_draws_the_same(tmp_path, options):
    model = generator(**options)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(drawn(again), drawn(model))
    assert again.memory.digest == model.memory.digest


def test_a_generator_that_was_saved_before_it_had_a_precision_is_loaded(tmp_path):
    model = generator()
    save_as_format_1(model, tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    known = json.loads(config.read_text())
    del known["parameters"]["precision"]
    config.write_text(json.dumps(known))
    again = load(tmp_path / "model")
    assert again.precision == "float32"
    np.testing.assert_array_equal(drawn(again), drawn(model))


@pytest.mark.parametrize("make", [generator, twin])
def test_both_kinds_are_trained_in_half_precision(make):
    assert make(precision="bfloat16").network_.config["precision"] == "bfloat16"


@pytest.mark.parametrize("change", [{"precision": "bfloat16"}, {"dropout": 0.5}])
def test_what_the_network_was_made_with_cannot_be_changed_later(tmp_path, change):
    model = generator().set_params(**change)
    with pytest.raises(StateError, match="Set them back"):
        model.save(tmp_path / "model")


def test_a_saved_generator_is_a_pipeline_directory(tmp_path):
    model = generator()
    model.save(tmp_path / "model")
    network = MemoryUNet.from_pretrained(tmp_path / "model" / "unet")
    for name, tensor in model.network_.state_dict().items():
        torch.testing.assert_close(network.state_dict()[name], tensor)
    assert (tmp_path / "model" / "model_index.json").is_file()
    assert (tmp_path / "model" / "scheduler" / "scheduler_config.json").is_file()


@pytest.mark.parametrize("change", ["missing", "unexpected"])
def test_weights_that_are_not_all_there_are_not_read_as_a_network(tmp_path, change):
    generator().save(tmp_path / "model")
    path = tmp_path / "model" / "unet" / "diffusion_pytorch_model.safetensors"
    weights = load_file(path)
    if change == "missing":
        del weights["mid_block.fusion.weight"]
    else:
        weights["mid_block.fusion.more"] = torch.zeros(3)
    path.unlink()  # it may be shared with the model's own file
    save_file(weights, path)
    with pytest.raises(StoreError, match=rf"MemoryUNet .*{change}_keys: 'mid_block.fusion"):
        MemoryUNet.from_pretrained(tmp_path / "model" / "unet")


def test_saving_again_brings_the_directory_up_to_date(tmp_path):
    model = generator(ids=range(64))
    model.save(tmp_path / "model")
    model.forget(ids=[0, 1])
    model.save(tmp_path / "model")
    assert len(load(tmp_path / "model").memory) == 62


def test_another_generator_takes_the_place_of_one_only_if_asked(tmp_path):
    first, other = generator(ids=range(64)), generator(count=32, ids=range(64, 96), random_state=1)
    first.forget(ids=[0])
    first.save(tmp_path / "model")
    with pytest.raises(StoreError, match="already holds a model"):
        other.save(tmp_path / "model")
    other.save(tmp_path / "model", overwrite=True)
    found = load(tmp_path / "model")
    np.testing.assert_array_equal(drawn(found), drawn(other))
    network = MemoryUNet.from_pretrained(tmp_path / "model" / "unet")
    torch.testing.assert_close(network.state_dict(), dict(other.network_.state_dict()))
    with pytest.raises(RowIdError, match="forgotten before"):
        found.remember(quarters(1)[0], ["a"], ids=[0])


@pytest.mark.parametrize("removed", [None, "scheduler", "unet"])
def test_a_classifier_in_the_place_of_a_generator_leaves_nothing_of_its_weights(tmp_path, removed):
    generator(ids=range(64)).save(tmp_path / "model")
    if removed is not None:  # an earlier removal was interrupted
        shutil.rmtree(tmp_path / "model" / removed)
    X, y = quarters(16)
    other = SPMClassifier(epochs=1, random_state=0).fit(X, y)
    other.save(tmp_path / "model", overwrite=True)
    found = {path.name for path in (tmp_path / "model").iterdir()}
    weights = f"weights-{other.weights_digest[:16]}.safetensors"
    assert found == {"rows.sqlite", weights}


@pytest.mark.parametrize(
    "name", ["model_index.json", "unet/config.json", "unet/diffusion_pytorch_model.safetensors"]
)
def test_a_layout_that_was_interrupted_is_finished_by_the_next_load(tmp_path, name):
    generator().save(tmp_path / "model")
    (tmp_path / "model" / name).unlink()
    load(tmp_path / "model")
    network = MemoryUNet.from_pretrained(tmp_path / "model" / "unet")
    assert (tmp_path / "model" / name).is_file()
    assert len(network.state_dict())


def test_a_layout_whose_removal_was_interrupted_is_removed_by_the_next_load(tmp_path):
    generator(ids=range(64)).save(tmp_path / "generator")
    X, y = quarters(16)
    SPMClassifier(epochs=1, random_state=0).fit(X, y).save(tmp_path / "model")
    for name in ("model_index.json", "unet", "scheduler"):
        (tmp_path / "generator" / name).rename(tmp_path / "model" / name)
    load(tmp_path / "model")
    found = sorted(path.name.split("-")[0] for path in (tmp_path / "model").iterdir())
    assert found == ["rows.sqlite", "weights"]


def test_a_pipeline_of_someone_else_beside_a_classifier_stays(tmp_path):
    X, y = quarters(16)
    model = SPMClassifier(epochs=1, random_state=0).fit(X, y, ids=range(16))
    model.save(tmp_path / "model")
    DDPMPipeline(UNet2DModel(8, **_LITTLE), make_scheduler()).save_pretrained(tmp_path / "model")
    theirs = {p: p.read_bytes() for p in (tmp_path / "model").rglob("*.json") if "unet" in str(p)}
    model.forget(ids=[0])
    model.save(tmp_path / "model")
    assert (tmp_path / "model" / "model_index.json").exists()
    assert theirs
    assert all(path.read_bytes() == content for path, content in theirs.items())


def test_a_network_is_never_read_from_a_pickle(tmp_path):
    generator().save(tmp_path / "model")
    unet = tmp_path / "model" / "unet"
    weights = load_file(unet / "diffusion_pytorch_model.safetensors")
    torch.save(weights, unet / "diffusion_pytorch_model.bin")
    (unet / "diffusion_pytorch_model.safetensors").unlink()
    with pytest.raises(OSError, match="safetensors"):
        MemoryUNet.from_pretrained(unet)


def test_a_pipeline_of_someone_else_is_left_alone(tmp_path):
    DDPMPipeline(UNet2DModel(8, **_LITTLE), make_scheduler()).save_pretrained(tmp_path / "theirs")
    before = {p: p.read_bytes() for p in (tmp_path / "theirs").rglob("*") if p.is_file()}
    with pytest.raises(StoreError, match="holds other files"):
        generator().save(tmp_path / "theirs")
    assert {p: p.read_bytes() for p in (tmp_path / "theirs").rglob("*") if p.is_file()} == before


_LITTLE = {
    "block_out_channels": (8,),
    "down_block_types": ("DownBlock2D",),
    "up_block_types": ("UpBlock2D",),
    "norm_num_groups": 2,
    "in_channels": 1,
    "out_channels": 1,
}


def test_parameters_changed_since_fit_are_refused(tmp_path):
    model = generator()
    for change in ({"channels": (8, 8)}, {"branch": "follow"}, {"labels": "plain"}):
        before = {name: getattr(model, name) for name in change}
        model.set_params(**change)
        with pytest.raises(StateError, match="were changed since"):
            drawn(model)
        with pytest.raises(StateError, match="were changed since"):
            model.save(tmp_path / "model")
        model.set_params(**before)
    model.save(tmp_path / "model")


def test_the_name_of_a_forgotten_class_does_not_stay_behind(tmp_path):
    model = generator(labels="plain")
    model.forget(classes=["b"])
    model.save(tmp_path / "model")
    assert b'"b"' not in (tmp_path / "model" / "rows.sqlite").read_bytes()
    assert "b" not in load(tmp_path / "model").numbers_.names
    drawn(load(tmp_path / "model"), stand_in="a")


@pytest.mark.parametrize("damage", ["missing", "extra", "changed", "cut"])
def test_damaged_weights_are_refused(tmp_path, damage):
    from safetensors.torch import load_file, save_file

    generator().save(tmp_path / "model")
    (path,) = (tmp_path / "model").glob("weights-*.safetensors")
    tensors = load_file(path)
    if damage == "missing":
        tensors.pop("conv_out.bias")
    elif damage == "extra":
        tensors["another"] = torch.zeros(1)
    elif damage == "changed":
        tensors["conv_out.bias"] += 1
    save_file(tensors, path)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StoreError, match="weights"):
        load(tmp_path / "model")


def test_a_foreign_directory_is_refused(tmp_path):
    (tmp_path / "model_index.json").write_text("{}")
    with pytest.raises(StoreError, match=r"rows\.sqlite, but the file is not there"):
        load(tmp_path)


# -- resuming ----------------------------------------------------------------------------------


@pytest.fixture
def _soon(monkeypatch):
    """Let trainings note and keep their state every ten steps."""
    for name in ("_spm_generator", "_ddpm"):
        monkeypatch.setattr(f"erasable.models.{name}._EVERY", 10)


@pytest.mark.usefixtures("_soon")
def test_a_resumed_training_equals_an_uninterrupted_one(tmp_path):
    X, y = quarters(64)
    options = {**SMALL, "dropout": 0.1, "augmentation": "crop"}
    whole = SPMGenerator(**options, steps=13).fit(X, y)
    SPMGenerator(**options, steps=10, checkpoint=tmp_path).fit(X, y)
    resumed = SPMGenerator(**options, steps=13, checkpoint=tmp_path).fit(X, y)
    assert resumed.weights_digest == whole.weights_digest
    assert [entry["loss"] for entry in resumed.history_] == [e["loss"] for e in whole.history_]


def test_fewer_steps_than_are_done_are_refused(tmp_path):
    X, y = quarters(32)
    SPMGenerator(**SMALL, steps=3, checkpoint=tmp_path).fit(X, y)
    with pytest.raises(StateError, match="at least 3 steps"):
        SPMGenerator(**SMALL, steps=2, checkpoint=tmp_path).fit(X, y)


@pytest.mark.usefixtures("_soon")
def test_going_on_from_the_middle_keeps_the_pace_of_the_history(tmp_path):
    X, y = quarters(32)
    small = {**SMALL, "channels": (4, 4), "batch_size": 4}
    SPMGenerator(**small, steps=3, checkpoint=tmp_path).fit(X, y)
    model = SPMGenerator(**small, steps=21, checkpoint=tmp_path).fit(X, y)
    assert [entry["step"] for entry in model.history_] == [3, 10, 20, 21]


def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    SPMGenerator(**SMALL, steps=1, checkpoint=tmp_path).fit(*quarters(32))
    with pytest.raises(StateError, match="data"):
        SPMGenerator(**SMALL, steps=1, checkpoint=tmp_path).fit(*quarters(32, seed=1))


# -- what is refused ---------------------------------------------------------------------------


def test_a_class_without_rows_is_refused_and_named():
    model = generator()
    model.forget(classes=["b"])
    with pytest.raises(RowIdError, match=r"'a', 'c', 'd'.*but got 'b'.*stand_in"):
        drawn(model)
    with pytest.raises(RowIdError, match="stand_in to be a class with rows"):
        drawn(model, stand_in="z")
    with pytest.raises(RowIdError, match="stand_in to be a class with rows"):
        drawn(model, ["a"], stand_in="z")  # though nothing needs it yet


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_inference_steps": 0}, "num_inference_steps from 1 to 1000"),
        ({"num_inference_steps": 1001}, "num_inference_steps from 1 to 1000"),
        ({"guidance_scale": -1}, "guidance_scale"),
        ({"batch_size": 0}, "batch_size"),
        ({"colour": 1}, "'class_numbers', but got 'colour'"),
        ({"rows_per_class": 0}, "rows_per_class"),
        ({"guidance_scale": "much"}, "guidance_scale of 0 or more, but got 'much'"),
        ({"generator": 5}, r"torch\.Generator on the CPU, but got 5"),
    ],
)
def test_a_wrong_request_is_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        generator().sample(["a"], **options)


def test_numbers_of_numpy_are_numbers():
    model = generator()
    asked = {"num_inference_steps": np.int64(5), "guidance_scale": np.float32(0.3)}
    found = model.sample(ALL, **asked, generator=seeded(), batch_size=np.int32(64))
    np.testing.assert_allclose(found, drawn(model), atol=1e-6)


def test_numbers_of_numpy_name_classes_and_count_rows():
    X, y = quarters(64)
    labels = [QUARTERS.index(label) for label in y]
    model = SPMGenerator(**SMALL, steps=2, labels="plain", rows_per_class=np.int64(5))
    model.fit(X, labels).forget(classes=[2])
    first, second = (drawn(model, [2] * 4, stand_in=kind(0)) for kind in (int, np.int64))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("count", [1, 3])
def test_images_that_have_no_other_of_their_class_are_refused(count):
    X, y = quarters(count)
    with pytest.raises(ArgumentError, match=f"each of {count} is alone. With steps=0"):
        SPMGenerator(**SMALL, steps=2).fit(X, y)
    assert len(SPMGenerator(**SMALL, steps=0).fit(X, y).memory) == count


def test_a_training_in_which_most_images_read_nothing_says_so(caplog):
    X, _ = quarters(66)
    labels = [str(place // 2) for place in range(64)] + ["a", "a"]
    SPMGenerator(**{**SMALL, "batch_size": 4}, steps=3, support_size=1).fit(X, labels)
    assert "of images had no row of their class to read" in caplog.text


def test_output_types_are_named():
    with pytest.raises(ArgumentError, match="'pil', 'np', 'pt'"):
        generator()("a", output_type="jpeg")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"branch": "both"}, "'fixed', 'follow'"),
        ({"labels": "all"}, "'none', 'plain', 'permuted'"),
        ({"drop": 1.0}, "drop"),
        ({"augmentation": "spin"}, "augmentation"),
        ({"support_size": -1}, "support_size"),
        ({"kernel": "fast"}, "kernel"),
        ({"steps": -1}, "steps"),
        ({"channels": (8, 16, 16, 16, 16)}, "halved 4 times"),
        ({"channels": 8}, "channels to be a list of ints, but got 8"),
        ({"channels": (8.5, 8)}, "channels to be a list of ints"),
        ({"attention": 1}, "attention to be a list of ints"),
        ({"support_size": 8, "batch_size": 16}, "more images than a batch of batch_size=16"),
        ({"support_gradient": "False"}, "support_gradient True or False"),
        ({"rows_per_class": "ten"}, "rows_per_class to be a positive int"),
        ({"drop": "a"}, "drop from 0 to below 1, but got 'a'"),
        ({"dropout": "a"}, "dropout from 0 to below 1, but got 'a'"),
    ],
)
def test_wrong_parameters_are_refused_and_nothing_changes(options, message):
    model = generator()
    before = model.memory.digest
    with pytest.raises(ArgumentError, match=message):
        model.set_params(**options).fit(*quarters(16))
    assert model.memory.digest == before


def test_features_that_rounding_cannot_hold_are_refused_with_the_remedy(tmp_path):
    with pytest.raises(StateError, match="Fit again with fewer grid_bits"):
        generator(grid_bits=20, checkpoint=tmp_path / "kept")
    assert len(generator(grid_bits=14, checkpoint=tmp_path / "kept").memory) == 64


def test_images_beyond_one_are_refused():
    X = np.random.default_rng(0).normal(size=(8, 8, 8)).astype(np.float32)
    for model in (SPMGenerator(**SMALL, steps=0), DDPM(**SMALL, steps=0), GMM(components=2)):
        with pytest.raises(ArgumentError, match="numbers from 0 to 1"):
            model.fit(X, ["a", "b"] * 4)


def test_what_is_remembered_or_asked_for_must_be_images_too():
    model = generator()
    wrong = np.full((1, 8, 8), 7.0, np.float32)
    with pytest.raises(ArgumentError, match="numbers from 0 to 1"):
        model.remember(wrong, ["a"])
    with pytest.raises(ArgumentError, match="numbers from 0 to 1"):
        model.votes(wrong, ["a"])
    with pytest.raises(ArgumentError, match="images"):
        SPMGenerator(**SMALL, steps=0).fit(np.zeros((4, 5), np.float32), list("abab"))


def test_bytes_of_torch_are_images():
    X, y = quarters(16)
    first = SPMGenerator(**SMALL, steps=0).fit(torch.from_numpy(X), y)
    second = SPMGenerator(**SMALL, steps=0).fit(X, y)
    assert first.memory.digest == second.memory.digest


def test_drawing_leaves_the_random_state_of_torch_alone():
    model = generator()
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    model.sample(["a"], num_inference_steps=1)
    assert torch.equal(torch.rand(1), expected)


def test_an_empty_memory_is_refused():
    model = generator()
    model.forget(classes=list(QUARTERS))
    with pytest.raises(StateError, match="empty"):
        drawn(model)


# -- twins -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_soon")
def test_the_twin_draws_and_resumes(tmp_path):
    X, y = quarters(64)
    whole = DDPM(**SMALL, steps=13).fit(X, y)
    DDPM(**SMALL, steps=10, checkpoint=tmp_path).fit(X, y)
    resumed = DDPM(**SMALL, steps=13, checkpoint=tmp_path).fit(X, y)
    np.testing.assert_array_equal(drawn(resumed), drawn(whole))
    with pytest.raises(RowIdError, match="but got 'z'"):
        drawn(whole, ["z"])


def test_the_twin_keeps_the_place_of_classes_without_images():
    X, y = quarters(64)
    keep = [i for i, label in enumerate(y) if label != "b"]
    oracle = DDPM(**SMALL, steps=1).fit(X[keep], [y[i] for i in keep], classes=QUARTERS)
    assert oracle.places(["a", "b", "d"]).tolist() == [0, 1, 3]
    with pytest.raises(ArgumentError, match="among classes, but got 'b'"):
        DDPM(**SMALL, steps=1).fit(X, y, classes=["a", "c", "d"])


@pytest.mark.parametrize("weights", ["uniform", "learnt"])
def test_a_mixture_draws_its_class_and_drops_it(weights):
    model = GMM(components=3, weights=weights, random_state=0).fit(*quarters(64))
    assert brightest(drawn(model)) == ALL
    model.forget(classes=["b"])
    with pytest.raises(RowIdError, match="'a', 'c', 'd'"):
        drawn(model)


def test_equal_gaussians_are_fitted_as_equal_ones():
    """Where EM stands still, each is the mean of what it answers for, as likely as the others."""
    rng = np.random.default_rng(0)
    light = np.where(rng.random(1000) < 0.9, 0.35, 0.65)
    X = rng.normal(light[:, None, None], 0.15, (1000, 2, 2)).clip(0, 1)
    model = GMM(components=2, iterations=500, random_state=0).fit(X, [0] * len(X))
    mixture, pixels = model.mixtures_[0], X.reshape(len(X), -1)
    apart = (pixels[:, None] - mixture.means_) ** 2 / mixture.covariances_
    likely = np.exp(-apart.sum(axis=2) / 2) / np.sqrt(mixture.covariances_.prod(axis=1))
    answers = likely / likely.sum(axis=1, keepdims=True)
    wanted = answers.T @ pixels / answers.sum(axis=0)[:, None]
    np.testing.assert_allclose(mixture.means_, wanted, atol=5e-3)


def test_a_mixture_of_one_image_per_gaussian_has_the_floor_as_variance():
    X, y = quarters(8)
    model = GMM(components=100, variance_floor=0.01, random_state=0).fit(X, y)
    for mixture in model.mixtures_:
        np.testing.assert_allclose(mixture.covariances_, 0.01, atol=1e-3)


def test_the_twin_has_no_memory():
    assert not hasattr(twin(), "forget")
