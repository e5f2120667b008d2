import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable.training import augment

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


@MOVING
def test_the_same_generator_moves_the_same_way(how):
    images = pictures(20, 2, 8, 8)
    assert torch.equal(augment(images, how, generator(3)), augment(images, how, generator(3)))


@MOVING
def test_another_generator_moves_another_way(how):
    images = pictures(20, 2, 8, 8)
    assert not torch.equal(augment(images, how, generator(3)), augment(images, how, generator(4)))


@MOVING
def test_images_of_the_caller_stay_as_they_are(how):
    images = pictures(20, 2, 8, 8)
    augment(images, how, generator())
    assert torch.equal(images, pictures(20, 2, 8, 8))


@MOVING
def test_moving_leaves_the_global_random_state(how):
    before = torch.get_rng_state()
    augment(pictures(5, 1, 4, 4), how, generator())
    assert torch.equal(torch.get_rng_state(), before)


def test_none_returns_the_images_themselves():
    images = pictures(2, 1, 4, 4)
    assert augment(images, "none", generator()) is images


@MOVING
def test_vectors_are_returned_as_they_are(how):
    vectors = torch.ones(3, 4)
    assert augment(vectors, how, generator()) is vectors
