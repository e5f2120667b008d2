"""Attempts to bring an input back in another form, and to find what should have gone."""

import hashlib
import itertools
import json
import re
from pathlib import Path

import numpy as np

from adversary.attempts import attempt, outcome
from erasable import SPMClassifier, load
from erasable.data import Dataset, Split
from erasable.store import EmbeddingCache

rng = np.random.default_rng(0)
IMAGES = rng.integers(0, 256, (12, 6, 5, 3), dtype=np.uint8)
LABELS = ["a", "b"] * 6
IDS = [f"image-{row}" for row in range(12)]
SMALL = {"encoder_options": {"widths": [4], "dim": 8}, "random_state": 0, "batch_size": 8}


def _comes_back_as(form: np.ndarray) -> str:
    """Forget a picture, and remember a form of it under another id."""
    model = SPMClassifier(**SMALL).remember(IMAGES, LABELS, ids=IDS)
    model.forget(ids=IDS[:1])
    return outcome(lambda: model.remember(form[:1], ["a"], ids=["again"]) and "accepted")


@attempt(
    "Remember a forgotten picture in half precision under another id",
    before="accepted",
    now="refused",
)
def a_picture_in_half_precision(folder: Path) -> str:
    return _comes_back_as((IMAGES / 255).astype(np.float16))


@attempt(
    "Remember a forgotten picture of bytes as numbers from 0 to 255 under another id",
    before="accepted",
    now="refused",
)
def a_picture_as_numbers_up_to_255(folder: Path) -> str:
    return _comes_back_as(IMAGES.astype(np.float64))


@attempt(
    "Remember a forgotten picture with channels first, in half precision and in Fortran order",
    before="accepted",
    now="refused",
)
def a_picture_in_another_layout(folder: Path) -> str:
    halves = (IMAGES.transpose(0, 3, 1, 2) / 255).astype(np.float16)
    return _comes_back_as(np.asfortranarray(halves))


@attempt(
    "Forget a picture in colour, and fit again on pictures that are flattened pixel after pixel",
    before="accepted",
    now="refused",
)
def a_picture_flattened(folder: Path) -> str:
    model = SPMClassifier(epochs=0, encoder="auto", random_state=0).fit(IMAGES, LABELS, ids=IDS)
    model.forget(ids=IDS[:1])
    ids = [f"again-{row}" for row in range(12)]
    return outcome(lambda: model.fit(IMAGES.reshape(12, -1), LABELS, ids=ids) and "accepted")


@attempt(
    "Forget a feature vector, and remember it in half precision under another id",
    before="accepted",
    now="refused",
)
def a_vector_in_half_precision(folder: Path) -> str:
    vectors = np.random.default_rng(1).normal(size=(12, 32)).astype(np.float32)
    model = SPMClassifier("identity").remember(vectors, LABELS, ids=IDS)
    model.forget(ids=IDS[:1])
    halves = vectors[:1].astype(np.float16)
    return outcome(lambda: model.remember(halves, ["a"], ids=["again"]) and "accepted")


@attempt(
    "Train an encoder on bytes, remember one of them in half precision under another id, forget it",
    before="exact",
    now="memory",
)
def a_trained_picture_in_half_precision(folder: Path) -> str:
    trained = SPMClassifier(**SMALL, epochs=1).fit(IMAGES, LABELS, ids=IDS)
    model = SPMClassifier(trained.encoder_)
    model.remember((IMAGES[:2] / 255).astype(np.float16), LABELS[:2], ids=["x", "y"])
    return str(model.forget(ids=["x"]).level)


@attempt(
    "Guess two forgotten ids by the digest of all ids in the saved configuration, without keys",
    before="2 ids found",
    now="nothing found",
)
def ids_by_a_digest_without_a_key(folder: Path) -> str:
    rows = Split(np.zeros((12, 4), np.float32), np.array(LABELS), IDS)
    model = SPMClassifier("identity").remember(np.arange(48.0).reshape(12, 4), LABELS, ids=IDS)
    model.data_ = Dataset("people", rows, None, "here").record()
    model.forget(ids=IDS[:2])
    model.save(folder / "model")
    live = sorted(row.id for row in load(folder / "model").memory)
    saved = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    digests = set(re.findall(rb"[0-9a-f]{64}", saved))
    for guess in itertools.combinations([f"image-{number}" for number in range(40)], 2):
        digest = hashlib.sha256(json.dumps(sorted([*live, *guess])).encode()).hexdigest()
        if digest.encode() in digests:
            return f"{len(guess)} ids found"
    return "nothing found"


@attempt(
    "Train on rows, forget them, and read what is left of their last batch beside the weights",
    before="gradients of the last batch",
    now="nothing",
)
def gradients_of_forgotten_rows(folder: Path) -> str:
    vectors = np.random.default_rng(1).normal(size=(12, 4))
    model = SPMClassifier(epochs=1, random_state=0).fit(vectors, LABELS, ids=IDS)
    model.forget(ids=IDS[:11])
    has_gradients = any(weight.grad is not None for weight in model.network_.parameters())
    return "gradients of the last batch" if has_gradients else "nothing"


@attempt(
    "Embed a row under another id with a cache, forget the row, and look into the cache",
    before="1 embedding of its input",
    now="0 embeddings of its input",
)
def keep_an_embedding_under_another_id(folder: Path) -> str:
    pictures = np.random.default_rng(0).random((8, 16))
    model = SPMClassifier("random_features", embedding_cache=folder / "cache", random_state=0)
    model.remember(pictures, ["a", "b"] * 4, ids=[f"r{row}" for row in range(8)])
    model.embed(pictures[:1], ids=["another"])
    model.forget(ids=["r0"])

    kept = EmbeddingCache(folder / "cache").held([b"s:another"])
    return f"{kept} embedding{'' if kept == 1 else 's'} of its input"
