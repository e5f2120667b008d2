"""Folders of images, one folder per class."""

import numpy as np
import pytest
from PIL import Image

from erasable.data import LazyImages, load_dataset
from erasable.errors import ArgumentError


def paint(root, *names):
    for number, name in enumerate(names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.full((6, 6, 3), 10 * number, np.uint8)
        Image.fromarray(pixels).save(path)
    return root


def flat(root, count=5):
    return paint(root, *(f"{label}/{n}.png" for label in ("cat", "dog") for n in range(count)))


def refused(root, **options):
    with pytest.raises(ArgumentError) as error:
        load_dataset(root, **options)
    return str(error.value)


def everything(dataset):
    parts = [dataset.train] if dataset.test is None else [dataset.train, dataset.test]
    return {
        row_id: (label, image.tobytes())
        for part in parts
        for row_id, label, image in zip(part.ids, part.y.tolist(), part.X[:], strict=True)
    }


def test_a_class_per_folder_is_split_and_the_split_recorded(tmp_path):
    dataset = load_dataset(flat(tmp_path), test_share=0.4, seed=3, resolution=4)
    assert (len(dataset.train), len(dataset.test)) == (6, 4)
    assert sorted(dataset.train.y) == ["cat"] * 3 + ["dog"] * 3
    assert (dataset.seed, dataset.test_share, dataset.source) == (3, 0.4, str(tmp_path))
    assert isinstance(dataset.train.X, LazyImages)
    assert dataset.train.X.shape == (6, 4, 4, 3)


def test_ids_are_paths_from_the_root_and_mean_the_same_image_with_every_seed(tmp_path):
    root = flat(tmp_path)
    first = everything(load_dataset(root, resolution=4))
    assert set(first) == {f"{label}/{n}.png" for label in ("cat", "dog") for n in range(5)}
    for seed in range(1, 4):
        assert everything(load_dataset(root, resolution=4, seed=seed, test_share=0.4)) == first


def test_the_default_resolution_is_that_of_imagenet(tmp_path):
    assert load_dataset(flat(tmp_path)).train.X.shape[1:] == (224, 224, 3)


@pytest.mark.parametrize("other", ["val", "test"])
def test_splits_of_the_folder_are_kept(tmp_path, other):
    paint(tmp_path, "train/a/0.png", "train/b/0.png", f"{other}/a/0.png")
    dataset = load_dataset(tmp_path)
    assert dataset.train.ids == ["train/a/0.png", "train/b/0.png"]
    assert (dataset.test.ids, dataset.test.y.tolist()) == ([f"{other}/a/0.png"], ["a"])
    assert dataset.seed is None


def test_a_test_folder_without_labels_gives_way_to_val(tmp_path):
    paint(tmp_path, "train/a/0.png", "val/a/0.png", "test/0.png")
    assert load_dataset(tmp_path).test.ids == ["val/a/0.png"]


def test_a_labelled_test_folder_comes_before_val(tmp_path):
    paint(tmp_path, "train/a/0.png", "val/a/0.png", "test/a/0.png")
    assert load_dataset(tmp_path).test.ids == ["test/a/0.png"]


def test_a_class_may_be_called_train(tmp_path):
    paint(tmp_path, "train/0.png", "car/0.png")
    dataset = load_dataset(tmp_path, test_share=0)
    assert dataset.train.y.tolist() == ["car", "train"]


def test_a_lone_train_folder_is_split(tmp_path):
    paint(tmp_path, *(f"train/a/{n}.png" for n in range(4)))
    dataset = load_dataset(tmp_path, test_share=0.25)
    assert (len(dataset.train), len(dataset.test), dataset.seed) == (3, 1, 0)


def test_images_may_lie_deeper_than_their_class(tmp_path):
    paint(tmp_path, "a/2020/x/0.png", "a/1.png")
    dataset = load_dataset(tmp_path, test_share=0)
    assert dataset.train.ids == ["a/1.png", "a/2020/x/0.png"]
    assert set(dataset.train.y) == {"a"}


def test_endings_are_read_in_any_case(tmp_path):
    paint(tmp_path, "a/0.PNG", "a/1.JpEg")
    assert len(load_dataset(tmp_path, test_share=0).train) == 2


def test_other_files_are_left_out_and_counted(tmp_path):
    flat(tmp_path)
    for name in ("readme.txt", "cat/labels.csv", "cat/.hidden.png", ".git/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    dataset = load_dataset(tmp_path, check=True)
    assert dataset.remarks == ("3 files that are not images were left out",)


def test_a_prefix_says_that_a_path_is_a_folder_of_images(tmp_path):
    root = flat(tmp_path / "photos.csv")
    assert len(load_dataset(f"imagefolder:{root}", test_share=0).train) == 10


@pytest.mark.parametrize("names", [[], ["0.png", "1.png"]])
def test_a_folder_without_classes_is_refused(tmp_path, names):
    assert "one folder per class" in refused(paint(tmp_path, *names))


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    assert "there is no folder" in refused(f"imagefolder:{tmp_path}/none")


def test_everything_that_is_wrong_is_said_at_once(tmp_path):
    outside = paint(tmp_path / "outside", "0.png")
    root = paint(tmp_path / "root", "train/a/0.png", "val/a/0.png", "val/new/0.png")
    (root / "train" / "empty").mkdir()
    (root / "train" / "a" / "link.png").symlink_to(outside / "0.png")
    (root / "val" / "a" / "broken.png").write_bytes(b"odd")
    message = refused(root, check=True)
    assert "in every class, but these folders have none: 'train/empty'" in message
    assert "these lead elsewhere: 'train/a/link.png'" in message
    assert "1 cannot: 'val/a/broken.png' (" in message
    assert "in the training rows too, but these are not there: 'new'" in message


def test_at_most_five_broken_files_are_named_and_the_rest_counted(tmp_path):
    flat(tmp_path)
    for number in range(8):
        (tmp_path / "cat" / f"z{number}.png").write_bytes(b"odd")
    message = refused(tmp_path, check=True)
    assert "8 cannot" in message
    assert message.count("'cat/z") == 5
    assert "and 3 more" in message


def test_a_broken_file_does_not_matter_until_it_is_used(tmp_path):
    flat(tmp_path)
    (tmp_path / "cat" / "z.png").write_bytes(b"odd")
    dataset = load_dataset(tmp_path, test_share=0, resolution=4)
    assert dataset.train.X[:5].shape == (5, 4, 4, 3)
    with pytest.raises(ArgumentError, match=r"cat/z\.png"):
        dataset.train.X[5]


def test_links_that_stay_in_the_folder_are_followed(tmp_path):
    flat(tmp_path)
    (tmp_path / "cat" / "again.png").symlink_to(tmp_path / "dog" / "0.png")
    assert "cat/again.png" in load_dataset(tmp_path, test_share=0).train.ids


@pytest.mark.parametrize("place", ["class", "cat/below"])
def test_links_to_folders_are_refused(tmp_path, place):
    flat(tmp_path)
    (tmp_path / place).symlink_to(tmp_path / "dog")
    assert f"'{place}'" in refused(tmp_path)


def test_links_to_nothing_are_refused(tmp_path):
    flat(tmp_path)
    (tmp_path / "cat" / "gone.png").symlink_to(tmp_path / "dog" / "gone.png")
    assert "'cat/gone.png'" in refused(tmp_path)


def test_the_folder_itself_may_be_a_link(tmp_path):
    flat(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert len(load_dataset(tmp_path / "link", test_share=0).train) == 10


def test_a_name_that_is_not_text_is_refused(tmp_path):
    flat(tmp_path)
    (tmp_path / "cat" / "0.png").rename(str(tmp_path / "cat") + "/\udcff.png")
    assert "in UTF-8" in refused(tmp_path)
