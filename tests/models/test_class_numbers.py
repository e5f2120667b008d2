"""Numbers of classes: what training fixed stays, what came later shows no history."""

import copy
import gc
import json
import types

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable import SPMGenerator, load
from erasable.models._class_numbers import ClassNumbers
from erasable.models._saving import _config

LATER = "wxyz"
NAMED = "a-class-of-one-person"


def images(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, 4, 4), dtype=np.uint8)


def trained(labels):
    """Return a generator that was fitted on a row of each of four classes."""
    model = SPMGenerator(channels=(4,), layers=1, steps=0, labels=labels, random_state=0)
    return model.fit(images(4), list("abcd"), ids=list("abcd"))


def remember(model, label):
    row = images(1, seed=ord(label))
    return model.remember(row, [label], ids=[label], reinstate=True)


def drawn(model, **options):
    noise = torch.Generator().manual_seed(0)
    asked = model.memory.classes
    return model.sample(asked, num_inference_steps=2, generator=noise, **options)


def configuration(model):
    return json.dumps(_config(model), sort_keys=True)


STARTS = {labels: trained(labels) for labels in ("none", "plain", "permuted")}


@settings(max_examples=40)
@given(
    st.sampled_from(list(STARTS)),
    st.lists(st.sampled_from([*LATER, "c", "d"]), max_size=10),
    st.permutations(["c", "d", *LATER]),
)
def test_no_history_of_requests_shows_in_what_is_drawn_or_saved(labels, requests, order):
    """Each request of a history toggles a class; trained ones leave and do not come back."""
    first, live, gone = copy.deepcopy(STARTS[labels]), set("abcd"), set()
    for label in requests:
        if label in live:
            first.forget(ids=[label])
            live.discard(label)
            gone.add(label)
        elif label not in "cd":
            remember(first, label)
            live.add(label)
    second = copy.deepcopy(STARTS[labels])
    for label in order:
        if label in "cd" and label not in live:
            second.forget(classes=[label])
        elif label in live and label not in "cd":
            remember(second, label)
    assert second.memory.digest == first.memory.digest
    np.testing.assert_array_equal(drawn(first), drawn(second))
    assert configuration(first) == configuration(second)


def traces(root, word):
    """Return how often a word is found among everything that can be reached from an object."""
    known, found, left = {id(root)}, 0, [root]
    skipped = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
    while left:
        one = left.pop()
        found += isinstance(one, str) and word in one
        found += isinstance(one, bytes) and word.encode() in one
        for other in gc.get_referents(one):
            if id(other) not in known and not isinstance(other, skipped):
                known.add(id(other))
                left.append(other)
    return found


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("labels", list(STARTS))
def test_a_class_that_was_never_trained_leaves_no_trace(labels, tmp_path):
    model = copy.deepcopy(STARTS[labels])
    model.forget(classes=["d"])
    model.remember(images(1, seed=5), [NAMED], ids=["one"])
    model.save(tmp_path / "model")
    drawn(model)
    assert traces(model, NAMED)
    assert any(NAMED.encode() in content for content in files(tmp_path).values())
    model.forget(classes=[NAMED])
    model.save(tmp_path / "model")
    drawn(model)
    assert not traces(model, NAMED)
    assert not any(NAMED.encode() in content for content in files(tmp_path).values())


@pytest.mark.parametrize("labels", list(STARTS))
def test_a_class_that_only_classes_names_leaves_no_trace(labels):
    model = SPMGenerator(channels=(4,), layers=1, steps=0, labels=labels, random_state=0)
    model.fit(images(2), ["a", "b"], classes=["a", NAMED, "b"])
    assert not traces(model, NAMED)
    assert model._class_count == (0 if labels == "none" else 3)


def test_a_trained_class_that_comes_back_is_a_new_class():
    model = copy.deepcopy(STARTS["permuted"])
    model.forget(classes=["a", "c"])
    remember(model, "c")
    told = model.reading(list("bcd"), stand_in=None, rows_per_class=None).labels
    assert told.tolist() == [1, 0, 3]


def test_trained_classes_keep_their_numbers_whatever_comes_and_goes():
    model = copy.deepcopy(STARTS["permuted"])
    before = drawn(model)
    model.forget(classes=["c"])
    remember(remember(model, "0"), "z")  # sorted before and after all others
    after = dict(zip(model.memory.classes, drawn_each(model), strict=True))
    for label, image in zip("abcd", drawn_each(STARTS["permuted"]), strict=True):
        if label != "c":
            np.testing.assert_array_equal(after[label], image)
    assert len(before) == 4


def drawn_each(model):
    """Draw every class from the same noise."""
    return [
        model.sample([label], num_inference_steps=2, generator=torch.Generator().manual_seed(0))
        for label in model.memory.classes
    ]


def test_the_numbers_of_a_model_saved_before_stay(tmp_path):
    """Its configuration also named classes that came later: nothing tells them apart."""
    model = copy.deepcopy(STARTS["permuted"])
    model.forget(classes=["a", "c"])
    remember(model, "x")
    model.numbers_ = ClassNumbers.of([None, "b", "x", "d"])
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    told = again.reading(list("bdx"), stand_in=None, rows_per_class=None).labels
    assert told.tolist() == [1, 3, 2]
    again.forget(classes=["x"])
    assert again.numbers_.names == (None, "b", None, "d")


def test_classes_of_equal_value_and_other_type_are_other_classes():
    numbers = ClassNumbers.of([True, 1, "1"])
    assert numbers.left([1]).names == (None, 1, None)
    assert numbers.told([False, 1, 1.0], is_filled=True) == {
        (int, 1): 1,
        (bool, False): 0,
        (float, 1.0): 2,
    }


def test_a_change_of_names_shows_until_it_is_gone():
    numbers = ClassNumbers.of(["a", "b", "c"])
    assert numbers.is_sound
    assert numbers.left(["a", "c"]).is_sound
    assert numbers.left([]) == ClassNumbers.of([None, None, None])
    changed = ClassNumbers(("b", "a", "c"), numbers.checksum)
    assert not changed.is_sound
    assert not changed.left(["a", "b"]).is_sound
