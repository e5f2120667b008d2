"""The real data sets, from whichever source can be reached."""

import numpy as np
import pytest

from erasable.data import load_dataset
from erasable.data._layouts import CifarBinaryLayout, decoded_digest
from erasable.data._specs import CIFAR10

pytestmark = pytest.mark.download


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def test_cifar10_has_the_channel_means_that_everybody_reports(cache):
    train = load_dataset("cifar10", cache=cache).train
    means = train.X.reshape(-1, 3).mean(axis=0) / 255
    np.testing.assert_allclose(means, [0.49140, 0.48216, 0.44653], atol=5e-6)
    assert train.y[:3].tolist() == ["frog", "truck", "truck"]


def test_cifar10_as_official_records_is_the_same_data_set(cache):
    dataset = load_dataset("cifar10", cache=cache)
    contents, number = {}, {name: n for n, name in enumerate(CIFAR10.classes)}
    for name, split, rows in (
        *(
            (f"data_batch_{n + 1}.bin", dataset.train, range(10_000 * n, 10_000 * (n + 1)))
            for n in range(5)
        ),
        ("test_batch.bin", dataset.test, range(10_000)),
    ):
        part = split.take(rows)
        labels = np.array([number[label] for label in part.y], np.uint8)[:, None]
        colours = part.X.transpose(0, 3, 1, 2).reshape(len(part), -1)
        contents[name] = np.concatenate([labels, colours], axis=1).tobytes()
    assert decoded_digest(CifarBinaryLayout().decode(contents, CIFAR10)) == CIFAR10.digest


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_the_grey_sets_have_their_rows(cache, name):
    dataset = load_dataset(name, cache=cache)
    assert dataset.train.X.shape == (60_000, 28, 28)
    assert dataset.test.X.shape == (10_000, 28, 28)
    assert len(set(dataset.train.y.tolist())) == 10


def test_the_first_labels_are_those_of_the_originals(cache):
    assert load_dataset("mnist", cache=cache).train.y[:5].tolist() == [5, 0, 4, 1, 9]
    assert load_dataset("fashion-mnist", cache=cache).train.y[0] == "Ankle boot"
