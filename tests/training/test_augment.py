from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable.training import InBatchMemory, SeparateSupport, Support, Training, augment
from training.toy import Run, Watching, config_of, memory_network

EVERY_WAY = {
    **{how: Training(augmentation=how) for how in ("crop", "flip", "crop_flip")},
    "resized_crop_flip": Training(augmentation="resized_crop_flip"),
    "reflect": Training(augmentation="crop", edge="reflect", shift=2),
    "cutout": Training(cutout=2),
}
EVERY = pytest.mark.parametrize("how", EVERY_WAY.values(), ids=EVERY_WAY.keys())
MOVING = pytest.mark.parametrize("how", ["crop", "crop_flip"])


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(count, channels, height, width):
    """Return images in which every pixel has its own value, none of them zero."""
    size = count * channels * height * width
    return torch.arange(1.0, size + 1).reshape(count, channels, height, width)


def slow_moves(image, how):
    """Return every allowed version of one image (channels, height, width), pixel by pixel."""
    _, height, width = image.shape
    reach = max(1, min(height, width) // 8)
    moves = {}
    for mirrored in (False, True) if how == "crop_flip" else (False,):
        for down in range(-reach, reach + 1):
            for right in range(-reach, reach + 1):
                moved = torch.zeros_like(image)
                for row in range(height):
                    for column in range(width):
                        y, x = row + down, column + right
                        if 0 <= y < height and 0 <= x < width:
                            x = width - 1 - x if mirrored else x
                            moved[:, row, column] = image[:, y, x]
                moves[mirrored, down, right] = moved
    return moves


def move_of(before, after, how):
    """Name the moves that turn one image into another."""
    return [name for name, moved in slow_moves(before, how).items() if torch.equal(moved, after)]


@MOVING
@settings(max_examples=15)
@given(st.integers(1, 3), st.integers(2, 9), st.integers(2, 9), st.integers(0, 99))
def test_every_image_is_shifted_as_the_slow_loop_does(how, channels, height, width, seed):
    images = pictures(3, channels, height, width)
    moved = augment(images, how, generator(seed))
    assert all(move_of(*pair, how) for pair in zip(images, moved, strict=True))


@MOVING
def test_every_move_happens(how):
    images = pictures(300, 1, 3, 3)
    moved = augment(images, how, generator())
    found = {name for pair in zip(images, moved, strict=True) for name in move_of(*pair, how)}
    assert found == set(slow_moves(images[0], how))


def test_a_shift_reaches_an_eighth_of_the_shorter_side():
    images = torch.zeros(200, 1, 16, 40)
    images[:, :, 8, 20] = 1
    places = augment(images, "crop", generator()).nonzero()[:, 2:]
    assert [places.amin(0).tolist(), places.amax(0).tolist()] == [[6, 18], [10, 22]]


def test_about_half_of_the_images_are_mirrored():
    images = torch.zeros(400, 1, 1, 9)
    images[..., 0] = 1
    is_mirrored = augment(images, "crop_flip", generator())[..., 5:].sum((1, 2, 3)) > 0
    shown = augment(images, "crop_flip", generator()).sum((1, 2, 3)) > 0
    assert 0.35 < is_mirrored[shown].double().mean() < 0.65


@EVERY
def test_the_same_generator_moves_the_same_way(how):
    images = pictures(20, 2, 8, 8)
    assert torch.equal(augment(images, how, generator(3)), augment(images, how, generator(3)))


@EVERY
def test_another_generator_moves_another_way(how):
    images = pictures(20, 2, 8, 8)
    assert not torch.equal(augment(images, how, generator(3)), augment(images, how, generator(4)))


@EVERY
def test_images_of_the_caller_stay_as_they_are(how):
    images = pictures(20, 2, 8, 8)
    augment(images, how, generator())
    assert torch.equal(images, pictures(20, 2, 8, 8))


@EVERY
def test_moving_leaves_the_global_random_state(how):
    before = torch.get_rng_state()
    augment(pictures(5, 1, 4, 4), how, generator())
    assert torch.equal(torch.get_rng_state(), before)


def test_none_returns_the_images_themselves():
    images = pictures(2, 1, 4, 4)
    assert augment(images, "none", generator()) is images


@EVERY
def test_vectors_are_returned_as_they_are(how):
    vectors = torch.ones(3, 4)
    assert augment(vectors, how, generator()) is vectors


@MOVING
def test_a_name_is_that_training_with_its_other_defaults(how):
    images = pictures(20, 2, 8, 8)
    named = augment(images, how, generator())
    assert torch.equal(augment(images, Training(augmentation=how), generator()), named)


# -- edges, squares and parts ---------------------------------------------------------------------


def test_a_shift_reaches_as_far_as_it_is_told():
    images = torch.zeros(400, 1, 16, 16)
    images[:, :, 8, 8] = 1
    places = augment(images, Training(augmentation="crop", shift=3), generator()).nonzero()[:, 2:]
    assert [places.amin(0).tolist(), places.amax(0).tolist()] == [[5, 5], [11, 11]]


@given(st.integers(2, 7), st.integers(2, 7), st.integers(0, 9), st.integers(0, 99))
def test_what_is_shifted_in_is_the_reflected_edge(height, width, shift, seed):
    images = pictures(4, 2, height, width)
    how = Training(augmentation="crop", edge="reflect", shift=shift)
    reach = min(shift, height - 1, width - 1)
    padded = F.pad(images, [reach] * 4, mode="reflect")
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)  # (n, channels, down, right, …)
    for moved, own in zip(augment(images, how, generator(seed)), windows, strict=True):
        assert (own.flatten(1, 2) == moved[:, None]).all((0, 2, 3)).any()


@given(st.integers(1, 8), st.integers(3, 8), st.integers(3, 8), st.integers(0, 99))
def test_exactly_a_square_is_blanked(side, height, width, seed):
    images = pictures(5, 2, height, width)
    for image, cut in zip(
        images, augment(images, Training(cutout=side), generator(seed)), strict=True
    ):
        is_blank = cut == 0
        assert torch.equal(is_blank[0], is_blank[1])
        assert torch.equal(cut[~is_blank], image[~is_blank])
        rows, columns = (is_blank[0].any(axis).sum() for axis in (1, 0))
        own = min(side, min(height, width) // 2)  # most of an image stays
        assert (rows, columns) == (own, own)
        assert is_blank[0].sum() == own**2


def test_squares_lie_everywhere():
    found = augment(torch.ones(500, 1, 4, 4), Training(cutout=2), generator())
    assert (found == 0).any(0).all()
    assert len({tuple(image.flatten().tolist()) for image in found}) == 9


def test_a_square_is_blanked_after_the_image_was_moved():
    images = pictures(5, 1, 6, 6)
    how = Training(augmentation="crop_flip", edge="reflect", cutout=2)
    assert ((augment(images, how, generator()) == 0).sum((1, 2, 3)) == 4).all()


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 99))
def test_a_part_of_an_image_keeps_its_shape_and_range(height, width, seed):
    images = torch.rand(6, 3, height, width, generator=generator(seed)) - 0.5
    found = augment(images, "resized_crop_flip", generator(seed))
    assert found.shape == images.shape
    for before, after in zip(images, found, strict=True):
        assert before.min() - 1e-6 <= after.min() <= after.max() <= before.max() + 1e-6


def test_parts_have_8_to_100_percent_of_the_area_and_half_are_mirrored():
    """In a ramp to the right and downwards, slopes tell how large a part is."""
    side = 64
    ramp = torch.arange(side) / side
    images = torch.stack([ramp.expand(side, side), ramp[:, None].expand(side, side)])
    found = augment(images.expand(400, 2, side, side), "resized_crop_flip", generator())
    middle = slice(side // 4, 3 * side // 4)
    inside = found[:, :, middle, middle]
    width = (inside[:, 0, 0, -1] - inside[:, 0, 0, 0]) / (31 / side)
    height = (inside[:, 1, -1, 0] - inside[:, 1, 0, 0]) / (31 / side)
    area = width.abs() * height
    assert area.min() > 0.07
    assert area.max() < 1.01
    assert area.max() - area.min() > 0.7
    assert 0.4 < (width > 0).double().mean() < 0.6


# -- by turns -------------------------------------------------------------------------------------


def turning(objective=None, **settings):
    """Return per epoch, and image, whether it was shown as its mirror image."""
    images = torch.rand(36, 1, 4, 4, generator=generator())
    own = {"epochs": 4, "batch_size": 12, "augmentation": "flip", "flips": "turns"}
    config = config_of(**{**own, **settings})
    build = partial(memory_network, (1, 4, 4), "small_cnn", widths=[4])
    objective = Watching(objective or InBatchMemory())
    Run(images, torch.arange(36) % 3, objective, config, build).go()
    steps = len(objective.seen) // config.epochs
    found = [{} for _ in range(config.epochs)]
    for step, batch in enumerate(objective.seen):
        support = [] if batch.support is None else [batch.support]
        for image in torch.cat([batch.inputs, *support]):
            for place, own_image in enumerate(images):
                for is_mirrored, shown in enumerate((own_image, own_image.flip(2))):
                    if torch.equal(image, shown):
                        found[step // steps].setdefault(place, set()).add(bool(is_mirrored))
    return found


def test_each_image_is_mirrored_in_exactly_every_other_epoch():
    first, *others = turning()
    assert len(first) == 36
    for epoch, found in enumerate(others, 1):
        assert found == {
            place: {one ^ (epoch % 2 == 1) for one in own} for place, own in first.items()
        }
    assert 9 < sum(own == {True} for own in first.values()) < 27


def test_when_an_image_is_mirrored_does_not_depend_on_its_batch():
    assert turning(batch_size=36) == turning(batch_size=7)


def test_another_seed_mirrors_other_images_first():
    assert turning(seed=1)[0] != turning(seed=2)[0]


def test_rows_that_are_drawn_as_memory_are_mirrored_in_the_same_epochs():
    found = turning(SeparateSupport(Support(20)))
    assert all(len(own) == 1 for epoch in found for own in epoch.values())
    assert found == turning()


def test_without_turns_images_are_mirrored_at_random():
    first, second, *_ = turning(flips="random")
    assert 0 < sum(first[place] == second[place] for place in first) < 36
