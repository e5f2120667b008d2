"""The laws of deletion for a generator: in memory, and saved and loaded."""

import copy
import itertools

import numpy as np
import pytest

from conformance import DeletionLaws, ToyRow, columns, scenes
from erasable import SPMGenerator, load
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
    """The hooks for a generator. What it reads is tested elsewhere: it has no probabilities."""

    dim = 4
    exempt = _EXEMPT
    max_examples = 5
    reads = False
    branch = "fixed"
    labels = "none"
    fewest = 0
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
        model.fit(np.full((1, 2, 2), 0.123, np.float32), ["x"], ids=["the first row"])
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
        names = repr(subject.numbers_.names).encode()
        rows = b"".join(subject.memory.canonical_state())
        return bytes.fromhex(subject.weights_digest) + names + rows

    def digest(self, subject):
        return subject.memory.digest

    def classes(self, subject):
        return subject.classes_.tolist()

    def rebuild(self, subject):
        path = self.folder / str(next(self._numbers))
        copy.deepcopy(subject).save(path)
        return load(path)


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
