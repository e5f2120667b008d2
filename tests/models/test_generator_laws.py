"""The laws of deletion for a generator: in memory, and saved and loaded."""

import copy
import hashlib
import itertools

import numpy as np
import pytest
import torch

from conformance import DeletionLaws, ToyRow, columns, scenes
from erasable import SPMGenerator, load
from erasable.models._canonical import canonical_state
from models.toys import whole_labels

_EXEMPT = {
    "check_a_refused_add_names_every_problem": (
        "inputs are checked before they are encoded, labels before ids: one problem at a time"
    ),
}


def as_pictures(embeddings):
    """Return what the laws call embeddings as images of 2 × 2 pixels."""
    values = ((np.asarray(embeddings) / 64 + 1) / 2).astype(np.float32)
    return values.reshape(len(values), 2, 2) if values.shape[1] == 4 else values[:, None]


class GeneratorLaws(DeletionLaws):
    """The hooks for a generator. A reading is what it draws: a number per image."""

    dim = 4
    exempt = _EXEMPT
    max_examples = 5
    reads = False
    branch = "fixed"
    labels = "none"
    fewest = 0
    unused = ()
    folder = None
    _numbers = itertools.count()

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _set_folder(cls, tmp_path_factory):
        cls.folder = tmp_path_factory.mktemp("generators")

    @classmethod
    def scenes(cls):
        return scenes(cls.dim, min_size=cls.fewest).map(whole_labels)

    @pytest.fixture(autouse=True)
    def _one_at_a_time(self, monkeypatch):
        """Encode images one by one: in float32 a last bit may depend on the size of a batch."""
        monkeypatch.setattr("erasable.models._spm_generator.ROWS_AT_ONCE", 1)

    def build(self, rows):
        options = {"branch": self.branch, "labels": self.labels}
        model = SPMGenerator(channels=(4,), layers=1, steps=0, random_state=0, **options)
        first = np.full((1, 2, 2), 0.123, np.float32)
        model.fit(first, ["x"], ids=["the first row"], classes=["x", *self.unused])
        model.forget(ids=["the first row"])
        self.add(model, rows)
        return model

    def add(self, subject, rows, *, reinstate=False, skip_forgotten=False):
        if not rows:
            return
        parts = columns(rows, self.dim)
        subject.remember(
            as_pictures(parts.pop("embeddings")),
            parts.pop("labels"),
            **parts,
            reinstate=reinstate,
            skip_forgotten=skip_forgotten,
        )

    def forget(self, subject, **selectors):
        subject.forget(**selectors)

    def state(self, subject):
        return b"".join(canonical_state(subject, subject.memory, subject.weights_digest))

    def digest(self, subject):
        return subject.memory.digest

    def classes(self, subject):
        return subject.classes_.tolist()

    def rebuild(self, subject):
        path = self.folder / str(next(self._numbers))
        copy.deepcopy(subject).save(path)
        return load(path)

    def read(self, subject, queries):
        """Return a number of the image of each class that is drawn from a query's own noise."""
        seeds = [hashlib.sha256(query.tobytes()).digest()[:7] for query in queries]
        return np.array(
            [[_drawn(subject, label, s) for label in self.classes(subject)] for s in seeds]
        )


def _drawn(subject, label, seed):
    noise = torch.Generator().manual_seed(int.from_bytes(seed, "big"))
    image = subject.sample([label], num_inference_steps=2, generator=noise)
    return float(image.astype(np.float64).ravel() @ np.sqrt([2, 3, 5, 7]))


class TestFixed(GeneratorLaws):
    """Rows are patches, encoded once."""


class TestFollow(GeneratorLaws):
    """Rows are pixels, encoded in each step."""

    branch = "follow"
    max_examples = 4
    fewest = 2  # the first example is the smallest: it would be no rows


class TestPermuted(GeneratorLaws):
    """Weights know classes by number, too; names of classes that are gone do not stay with them."""

    labels = "permuted"
    max_examples = 4
    fewest = 2
    known = (True, False, 1, 0, -3, 1.0, 0.0, 2.0, "1", "cat", "dog", "", "a fresh class", "x")

    def build(self, rows):
        """Fit on the rows, so that the weights have names for their classes."""
        options = {"branch": self.branch, "labels": self.labels}
        model = SPMGenerator(channels=(4,), layers=1, steps=0, random_state=0, **options)
        first = ToyRow("the first row", "x", (0.123,) * self.dim)
        parts = columns([first, *rows], self.dim)
        model.fit(
            as_pictures(parts.pop("embeddings")), parts.pop("labels"), classes=self.known, **parts
        )
        model.forget(ids=["the first row"])
        return model

    def state(self, subject):
        """Return rows and weights. A class that comes back has no name, so names are no state."""
        live = {(type(label), label) for label in subject.memory.classes}
        named = {(type(name), name) for name in subject.numbers_.names if name is not None}
        assert named <= live
        rows = b"".join(subject.memory.canonical_state())
        return bytes.fromhex(subject.weights_digest) + rows

    def test_classes_of_the_rows_have_names(self):
        model = self.build([ToyRow("a", "cat", (0.0,) * 4), ToyRow("b", 1, (1.0,) * 4)])
        assert [name for name in model.numbers_.names if name is not None] == [1, "cat"]
        assert len(model.numbers_.names) == len(self.known)


class DrawnLaws(GeneratorLaws):
    """The laws of readings: what is drawn depends on the rows that are there, and on nothing else.

    Classes are drawn apart, so that the noise of an image does not depend on the others.
    """

    reads = True
    is_reading_only = True
    max_examples = 3
    exempt = _EXEMPT | {
        "check_a_reading_follows_the_labels_of_near_rows_when_read": (
            "weights that were never trained draw nothing of their rows"
        ),
        "check_forgetting_a_class_only_rescales_the_others_when_read": (
            "images of classes are no shares of one; that they do not change is tested below"
        ),
    }

    def check_forgetting_a_class_leaves_the_others_as_they_were_when_read(self, scene):
        kept = {(type(row.label), row.label) for row in scene.rows}
        if len(kept) < 2:
            return
        subject = self.build(scene.rows)
        before = self.read(subject, scene.queries)[:, 1:]
        self.forget(subject, classes=self.classes(subject)[:1])
        np.testing.assert_array_equal(self.read(subject, scene.queries), before)


class TestDrawn(DrawnLaws):
    """What is drawn by patches of the rows."""


class TestDrawnByRowsThatFollow(DrawnLaws):
    """What is drawn by rows that are encoded in each step."""

    branch = "follow"


class TestDrawnUnderFreeNumbers(DrawnLaws):
    """What is drawn of classes that came later and take the numbers that are free."""

    labels = "permuted"
    unused = ("p", "q", "s")
    is_reading_only = False
    exempt = DrawnLaws.exempt | {
        "check_swapping_two_classes_swaps_their_readings_when_read": (
            "numbers are told, too; that they say nothing is for training to teach"
        ),
        "check_forgetting_a_class_leaves_the_others_as_they_were_when_read": (
            "it frees a number for those after it, as if it had never been there"
        ),
    }
