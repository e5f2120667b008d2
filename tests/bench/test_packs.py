"""Packs of oracles: kept small, read back, and answers scored by them."""

from pathlib import Path

import numpy as np
import pytest

from erasable.bench._packs import OutsideAnswers, Pack, ids_digest, load_answers, load_pack, score
from erasable.errors import ArgumentError, StoreError
from erasable.metrics import prediction_gap

CLASSES = ["a", "b", "c"]
PUBLISHED = Path(__file__).parents[2] / "docs" / "results" / "packs"


def probabilities(seed, count=200):
    raw = np.random.default_rng(seed).random((count, 3)) ** 4
    return raw / raw.sum(1, keepdims=True)


@pytest.fixture
def pack():
    oracles = np.stack([probabilities(seed) for seed in (0, 1)]).astype(np.float16)
    return Pack(
        {"data": "toys", "rule": "class:a", "test_ids": ids_digest(range(200))}, CLASSES, oracles
    )


def test_a_pack_survives_being_kept(pack, tmp_path):
    pack.save(tmp_path / "pack.npz")
    found = load_pack(tmp_path / "pack.npz")
    assert (found.record, found.classes) == (pack.record, pack.classes)
    np.testing.assert_array_equal(found.oracles, pack.oracles)


@pytest.mark.parametrize("path", sorted(PUBLISHED.glob("*.npz")), ids=lambda path: path.stem)
def test_published_packs_can_be_scored_by(path):
    pack = load_pack(path)
    assert {"data", "rule", "forget", "kind", "oracle_seeds", "preset"} <= set(pack.record)
    assert len(pack.record["oracle_seeds"]) == len(pack.oracles) > 1
    np.testing.assert_allclose(pack.oracles.astype(float).sum(axis=2), 1, atol=0.01)
    found = score(pack, OutsideAnswers(pack.oracles[0].astype(float), pack.classes))
    assert 0 < found.prediction_gap < found.floor


def test_there_are_published_packs():
    assert list(PUBLISHED.glob("*.npz"))


def test_an_oracle_scores_nothing_against_itself(pack):
    one = Pack(pack.record, CLASSES, pack.oracles[:1])
    found = score(one, OutsideAnswers(pack.oracles[0].astype(float), CLASSES))
    assert found.prediction_gap == 0
    assert found.kl_unlearned_oracle == pytest.approx(0, abs=1e-9)
    assert found.floor is None


def test_answers_are_compared_with_every_oracle(pack):
    own = probabilities(5)
    found = score(pack, OutsideAnswers(own, CLASSES))
    gaps = [prediction_gap(own, probabilities(seed)) for seed in (0, 1)]
    assert found.prediction_gap == pytest.approx(np.mean(gaps), abs=0.01)
    between = prediction_gap(probabilities(0), probabilities(1))
    assert found.floor == pytest.approx(between, abs=0.01)


def test_columns_may_come_in_another_order(pack):
    own = probabilities(5)
    turned = score(pack, OutsideAnswers(own[:, ::-1], CLASSES[::-1]))
    assert turned == score(pack, OutsideAnswers(own, CLASSES))


@pytest.mark.parametrize(
    ("own", "classes"),
    [
        (probabilities(0)[:10], CLASSES),
        (probabilities(0), ["a", "b", "d"]),
        (-probabilities(0), CLASSES),
        (np.full((200, 3), np.nan), CLASSES),
        (np.zeros((200, 3)), CLASSES),
    ],
)
def test_answers_that_are_none_are_refused(pack, own, classes):
    with pytest.raises(ArgumentError, match="Expected probabilities"):
        score(pack, OutsideAnswers(own, classes))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"nothing"])
def test_a_file_that_is_no_pack_is_refused(tmp_path, content):
    path = tmp_path / "pack.npz"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="Expected an oracle pack"):
        load_pack(path)


def test_another_format_and_a_cut_pack_are_refused(pack, tmp_path):
    path = tmp_path / "pack.npz"
    np.savez(path, head=np.frombuffer(b'{"format": "x"}', np.uint8), oracles=pack.oracles)
    with pytest.raises(StoreError, match="its format is 'x'"):
        load_pack(path)
    pack.save(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(StoreError, match="Expected an oracle pack"):
        load_pack(path)


def test_ids_tell_whether_answers_are_to_these_rows(pack, tmp_path):
    path = tmp_path / "own.npz"
    np.savez(path, probabilities=probabilities(5), classes=CLASSES, ids=np.arange(200))
    assert score(pack, load_answers(path)).prediction_gap > 0
    np.savez(path, probabilities=probabilities(5), classes=CLASSES, ids=np.arange(200)[::-1])
    with pytest.raises(ArgumentError, match="test rows of toys in their order"):
        score(pack, load_answers(path))
