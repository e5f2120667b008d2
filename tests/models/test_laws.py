"""The laws of deletion for `SPMClassifier`: untrained and trained, in memory and on disk."""

import copy
import itertools
from dataclasses import replace

import numpy as np
import pytest

from conformance import DeletionLaws, Scene, ToyRow, columns, scenes
from erasable import SPMClassifier, load
from models.toys import TINY, blobs

_START = [63.5, -63.25, 63.125]

_EXEMPT = {
    "check_a_refused_add_names_every_problem": (
        "inputs are checked before they are encoded, labels before ids: one problem at a time"
    ),
}


def _whole(scene):
    """Put a whole number in the place of each label with a fraction."""

    def change(rows):
        return tuple(replace(row, label=2.0) if row.label == 0.5 else row for row in rows)

    return replace(scene, rows=change(scene.rows), shuffled=change(scene.shuffled))


class ClassifierLaws(DeletionLaws):
    """The hooks for an estimator; inputs are what the laws call embeddings."""

    exempt = _EXEMPT
    max_examples = 5
    folder = None
    _numbers = itertools.count()

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _set_folder(cls, tmp_path_factory):
        cls.folder = tmp_path_factory.mktemp("models")

    @classmethod
    def scenes(cls):
        # A column of floats with a fraction is a regression target to scikit-learn: refused.
        return scenes(cls.dim).map(_whole)

    def start(self):
        """Return an estimator that is set up but holds no row."""
        raise NotImplementedError

    def build(self, rows):
        subject = self.start()
        self.add(subject, rows)
        return subject

    def add(self, subject, rows, *, reinstate=False, skip_forgotten=False):
        if not rows:
            return
        parts = columns(rows, self.dim)
        subject.remember(
            parts.pop("embeddings"),
            parts.pop("labels"),
            **parts,
            reinstate=reinstate,
            skip_forgotten=skip_forgotten,
        )

    def forget(self, subject, **selectors):
        subject.forget(**selectors)

    def state(self, subject):
        weights = bytes.fromhex(subject.weights_digest)
        return weights + b"".join(subject.memory.canonical_state())

    def digest(self, subject):
        return subject.memory.digest

    def classes(self, subject):
        return subject.classes_.tolist()

    def rebuild(self, subject):
        path = self.folder / str(next(self._numbers))
        copy.deepcopy(subject).save(path)
        return load(path)

    def read(self, subject, queries):
        return subject.predict_proba(queries)


def untrained(encoder, reduction, **options):
    """Return an empty model: its one row came and went."""
    model = SPMClassifier(encoder, reduction, random_state=0, **options)
    model.remember([_START], ["x"], ids=["the first row"])
    model.forget(ids=["the first row"])
    return model


class TestIdentityPrototypes(ClassifierLaws):
    """Plain similarity to class means."""

    def start(self):
        return untrained("identity", "prototypes")


class TestRandomFeaturesRows(ClassifierLaws):
    """Random features, attention over rows."""

    def start(self):
        return untrained("random_features", "rows", encoder_options={"dim": 32, "gamma": 0.1})


class TrainedLaws(ClassifierLaws):
    """A network trained on other rows, which were then forgotten."""

    reduction = "prototypes"

    @pytest.fixture(autouse=True)
    def _fit(self):
        # Anew for each test, because each test has its own keys.
        X, y = blobs(40, dim=self.dim)
        model = SPMClassifier(**TINY, reduction=self.reduction, epochs=3)
        model.fit(X, y, ids=[f"fit {i}" for i in range(len(y))])
        model.forget(classes=["a", "b"])
        self.fitted = model

    def start(self):
        return copy.deepcopy(self.fitted)


class TestTrainedPrototypes(TrainedLaws):
    """A trained network read by class means."""


class TestTrainedRows(TrainedLaws):
    """A trained network read by attention over rows."""

    reduction = "rows"


class OnDisk:
    """A model that exists only as a directory between any two calls."""

    def __init__(self, path):
        self.path = path

    def __getattr__(self, name):
        return getattr(load(self.path), name)

    def remember(self, *args, **options):
        model = load(self.path)
        model.remember(*args, **options)
        model.save(self.path)

    def forget(self, **options):
        model = load(self.path)
        model.forget(**options)
        model.save(self.path)


class StoredLaws(ClassifierLaws):
    """The same hooks with a load before and a save after every step."""

    max_examples = 2

    def build(self, rows):
        path = self.folder / str(next(self._numbers))
        self.start().save(path)
        subject = OnDisk(path)
        self.add(subject, rows)
        return subject

    def rebuild(self, subject):
        return OnDisk(subject.path)


class TestStoredIdentityRows(StoredLaws):
    """An untrained model, saved and loaded around every step."""

    def start(self):
        return untrained("identity", "rows")


class TestStoredTrainedPrototypes(StoredLaws, TrainedLaws):
    """A trained model, saved and loaded around every step."""


def test_a_model_that_ignores_a_forget_breaks_the_laws():
    laws = TestIdentityPrototypes()
    laws.forget = lambda subject, **selectors: subject.memory.select(**selectors)
    rows = (ToyRow("i", "a", (1.0, 0.0, 0.0)), ToyRow("j", "b", (0.0, 1.0, 0.0)))
    scene = Scene(rows, ("i",), (), rows, np.zeros((1, 3)))
    with pytest.raises(AssertionError):
        laws.check_forgetting_ids_equals_building_without_them(scene)
