"""Attempts by names that look the same: text composed (NFC) and decomposed (NFD)."""

from pathlib import Path

import numpy as np

from adversary.attempts import attempt, outcome
from erasable import SPMClassifier

COMPOSED, DECOMPOSED = "Zo\u00e9", "Zoe\u0301"
X = np.random.default_rng(0).normal(size=(12, 4))
Y = np.arange(12) % 3


def _model(**options: object) -> SPMClassifier:
    return SPMClassifier(random_state=0, **{"encoder": "identity", "epochs": 0, **options})


@attempt(
    "Remember rows of a person under two spellings that look the same, forget the person",
    before="2 rows forgotten, 2 rows of the person left",
    now="4 rows forgotten, 0 rows of the person left",
)
def forget_a_person_who_is_spelt_in_two_ways(folder: Path) -> str:
    groups = [COMPOSED, COMPOSED, DECOMPOSED, DECOMPOSED, *["others"] * 8]
    model = _model().fit(X, Y, ids=list(range(12)), groups=groups)
    receipt = model.forget(groups=[COMPOSED])
    left = sum(row in model.memory for row in range(4))
    return f"{receipt.rows} rows forgotten, {left} rows of the person left"


@attempt(
    "Forget a person, remember another row of theirs under the other spelling",
    before="remembered",
    now="refused",
)
def bring_a_forgotten_person_back_in_another_spelling(folder: Path) -> str:
    model = _model().fit(X, Y, ids=list(range(12)), groups=[COMPOSED, *["others"] * 11])
    model.forget(groups=[COMPOSED])

    def again() -> str:
        model.remember(X[:1] + 9, Y[:1], ids=["new"], groups=[DECOMPOSED])
        return "remembered"

    return outcome(again)


@attempt(
    "Forget a row by its id, remember another row under the other spelling of the id",
    before="remembered",
    now="refused",
)
def bring_a_forgotten_id_back_in_another_spelling(folder: Path) -> str:
    model = _model().fit(X, Y, ids=[COMPOSED, *range(1, 12)])
    model.forget(ids=[COMPOSED])

    def again() -> str:
        model.remember(X[:1] + 9, Y[:1], ids=[DECOMPOSED])
        return "remembered"

    return outcome(again)


@attempt(
    "Train on a row, forget it, remember another under the other spelling of its id, forget that",
    before="exact",
    now="memory",
)
def level_of_a_trained_id_in_another_spelling(folder: Path) -> str:
    model = _model(encoder="auto", epochs=1).fit(X, Y, ids=[COMPOSED, *range(1, 12)])
    model.forget(ids=[COMPOSED])
    model.remember(X[:1] + 9, Y[:1], ids=[DECOMPOSED], reinstate=True)
    return model.forget(ids=[DECOMPOSED]).level


@attempt(
    "Keep embeddings in a cache under one spelling of an id, forget the row by the other",
    before="refused",
    now="0 embeddings left",
)
def forget_a_cached_row_by_another_spelling(folder: Path) -> str:
    from erasable.store import EmbeddingCache

    model = _model(embedding_cache=folder / "cache")
    model.remember(X[:3], Y[:3], ids=[DECOMPOSED, "b", "c"])

    def forget() -> str:
        model.forget(ids=[COMPOSED])
        keys = [f"s:{name}".encode() for name in (COMPOSED, DECOMPOSED)]
        return f"{EmbeddingCache(folder / 'cache').held(keys)} embeddings left"

    return outcome(forget)
