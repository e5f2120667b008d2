"""The laws of deletion for classifiers with a memory: untrained, trained, in memory, on disk."""

import copy
import itertools
from typing import ClassVar

import numpy as np
import pytest
import torch

from conformance import DeletionLaws, Scene, ToyRow, columns, scenes
from erasable import KNNClassifier, SPMClassifier, load
from erasable.data import load_digits
from erasable.training import Training
from models.toys import TINY, blobs, whole_labels

_START = [63.5, -63.25, 63.125, 62.5]

_EXEMPT = {
    "check_a_refused_add_names_every_problem": (
        "inputs are checked before they are encoded, labels before ids: one problem at a time"
    ),
}
_RESCALES = "check_forgetting_a_class_only_rescales_the_others_when_read"
_NEIGHBOURS = {**_EXEMPT, _RESCALES: "where a class leaves, rows farther off become neighbours"}
_GAUSSIAN = {**_EXEMPT, _RESCALES: "a class that leaves takes its share of the covariance along"}


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
        return scenes(cls.dim).map(whole_labels)

    def start(self):
        """Return an estimator that is set up but holds no row."""
        raise NotImplementedError

    def build(self, rows):
        subject = self.start()
        self.add(subject, rows)
        if rows:
            self.read(subject, np.zeros((1, self.dim)))  # what is kept must follow from here on
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


def emptied(model, dim=3):
    """Return a model that is set up but empty: its one row came and went."""
    model.remember([_START[:dim]], ["x"], ids=["the first row"])
    model.forget(ids=["the first row"])
    return model


def untrained(encoder, reduction, **options):
    """Return an empty model that was never trained."""
    return emptied(SPMClassifier(encoder, reduction, random_state=0, **options))


FEATURES = {"dim": 32, "gamma": 0.1}


class TestIdentityPrototypes(ClassifierLaws):
    """Plain similarity to class means."""

    def start(self):
        return untrained("identity", "prototypes")


class TestRandomFeaturesRows(ClassifierLaws):
    """Random features, attention over rows."""

    is_reading_only = True

    def start(self):
        return untrained("random_features", "rows", encoder_options=FEATURES)


class TestIdentityRows(ClassifierLaws):
    """Attention over rows as they are."""

    is_reading_only = True

    def start(self):
        return untrained("identity", "rows")


class TestIdentityNeighbours(ClassifierLaws):
    """Attention over the three nearest rows."""

    is_reading_only = True
    exempt = _NEIGHBOURS

    def start(self):
        return untrained("identity", "neighbours", k=3)


class TestIdentityGaussian(ClassifierLaws):
    """Class means in the metric of the rows as they are."""

    is_reading_only = True
    exempt = _GAUSSIAN

    def start(self):
        return untrained("identity", "gaussian")


class TestRandomFeaturesPrototypes(ClassifierLaws):
    """Random features, class means."""

    is_reading_only = True

    def start(self):
        return untrained("random_features", "prototypes", encoder_options=FEATURES)


class TestRandomFeaturesNeighbours(ClassifierLaws):
    """Random features, attention over the three nearest rows."""

    is_reading_only = True
    exempt = _NEIGHBOURS

    def start(self):
        return untrained("random_features", "neighbours", k=3, encoder_options=FEATURES)


class TestRandomFeaturesGaussian(ClassifierLaws):
    """Random features: more of them than there are rows."""

    is_reading_only = True
    exempt = _GAUSSIAN

    def start(self):
        return untrained("random_features", "gaussian", encoder_options=FEATURES)


class TestNearestNeighbours(ClassifierLaws):
    """Equal votes of the three nearest rows."""

    crowd = 3
    exempt = _NEIGHBOURS

    def start(self):
        return emptied(KNNClassifier("identity", k=3))


class GraphLaws(ClassifierLaws):
    """Rows that attend to each other; with weights, so that they hear something."""

    dim = 4
    reduction = "prototypes"

    def start(self):
        model = SPMClassifier("identity", self.reduction, set_encoder="graph", epochs=0)
        emptied(model, self.dim)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for weight in model.network_.set_encoder.parameters():
                weight.copy_(torch.randn(weight.shape, generator=generator))
        return model


class TestGraphPrototypes(GraphLaws):
    """Class means of rows that attend to each other."""


class TestGraphRows(GraphLaws):
    """Attention over rows that attend to each other."""

    is_reading_only = True
    reduction = "rows"


class TrainedLaws(ClassifierLaws):
    """A network trained on other rows, which were then forgotten."""

    kind = SPMClassifier
    options: ClassVar[dict] = {"reduction": "prototypes"}

    @pytest.fixture(autouse=True)
    def _fit(self):
        # Anew for each test, because each test has its own keys.
        X, y = blobs(40, dim=self.dim)
        model = self.kind(**TINY, **self.options, epochs=3)
        model.fit(X, y, ids=[f"fit {i}" for i in range(len(y))])
        model.forget(classes=["a", "b"])
        self.fitted = model

    def start(self):
        return copy.deepcopy(self.fitted)


class TestTrainedPrototypes(TrainedLaws):
    """A trained network read by class means."""


class TestTrainedRows(TrainedLaws):
    """A trained network read by attention over rows."""

    is_reading_only = True
    options: ClassVar[dict] = {"reduction": "rows"}


class TestTrainedNeighbours(TrainedLaws):
    """A trained network read by attention over the three nearest rows."""

    is_reading_only = True
    options: ClassVar[dict] = {"reduction": "neighbours", "k": 3}
    exempt = _NEIGHBOURS


class TestTrainedGaussian(TrainedLaws):
    """A trained network read by class means in the metric of the rows."""

    is_reading_only = True
    options: ClassVar[dict] = {"reduction": "gaussian"}
    exempt = _GAUSSIAN


class TestTrainedNearestNeighbours(TrainedLaws):
    """A network trained under a head, read by equal votes of the three nearest rows."""

    is_reading_only = True
    kind = KNNClassifier
    options: ClassVar[dict] = {"k": 3}
    crowd = 3
    exempt = _NEIGHBOURS


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


# -- the paper's formula, without a factor --------------------------------------------------------


def formula(reduction, **options):
    """Return a classifier trained by the formula as the paper prints it."""
    rows, _ = load_digits()
    model = SPMClassifier(
        "small_cnn", reduction, scale="none", normalize="none", grid_bits=8, epochs=4,
        learning_rate=0.1, training=Training(support_size=256), random_state=0, **options,
    )  # fmt: skip
    return model.fit(rows.X, rows.y)


@pytest.mark.parametrize("reduction", ["rows", "prototypes"])
def test_the_formula_of_the_paper_trains(reduction):
    _, held_out = load_digits()
    assert formula(reduction).score(held_out.X, held_out.y) > 0.9


def test_without_a_factor_the_training_is_that_with_one_written_otherwise():
    X, y = blobs(48)
    decayed = Training(weight_decay=0.05)
    models = [
        SPMClassifier("mlp", scale=scale, epochs=3, training=decayed, random_state=0).fit(X, y)
        for scale in ("sqrt", "none")
    ]
    usual, own = (model.network_.fusion for model in models)
    factor = len(usual.W_q) ** -0.25
    torch.testing.assert_close(own.W_q, factor * usual.W_q, rtol=1e-3, atol=1e-5)
    assert np.allclose(*(model.predict_proba(X) for model in models), atol=1e-4)
