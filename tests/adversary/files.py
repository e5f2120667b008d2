"""Attempts by hostile files and links: to remove what is not ours, to crash, to take all memory."""

import os
from pathlib import Path

import numpy as np

from adversary.attempts import attempt, outcome
from erasable import SPMClassifier

X = np.random.default_rng(0).normal(size=(12, 4))
Y = np.arange(12) % 3


# -- what a link leads to -------------------------------------------------------------------------


def _remembering(cache: Path) -> SPMClassifier:
    model = SPMClassifier("identity", epochs=0, embedding_cache=cache, random_state=0)
    return model.remember(X, Y, ids=[f"r{row}" for row in range(12)])


def _shelf(cache: Path) -> Path:
    return next(path for path in cache.iterdir() if path.is_dir())


def _files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in paths if path.name != ".lock"}


def _tampered(call: object, folder: Path) -> str:
    before = _files(folder)
    word = outcome(call)  # type: ignore[arg-type]
    left = "left alone" if _files(folder) == before else "changed"
    return f"{word if word == 'refused' else 'done'}, files elsewhere {left}"


@attempt(
    "Put a link to somebody else's shelf in the place of a shelf, forget a row",
    before="done, files elsewhere changed",
    now="refused, files elsewhere left alone",
)
def a_shelf_that_is_a_link(folder: Path) -> str:
    _remembering(folder / "others")
    model = _remembering(folder / "cache")
    shelf = _shelf(folder / "cache")
    shelf.rename(folder / "gone")
    shelf.symlink_to(_shelf(folder / "others"), target_is_directory=True)
    return _tampered(lambda: model.forget(ids=["r3"]), folder / "others")


@attempt(
    "Put a link to somebody else's segment in the place of a segment, forget a row",
    before="done, files elsewhere changed",
    now="refused, files elsewhere left alone",
)
def a_segment_that_is_a_link(folder: Path) -> str:
    _remembering(folder / "others")
    model = _remembering(folder / "cache")
    [segment] = _shelf(folder / "cache").glob("*.rows")
    segment.unlink()
    [theirs] = _shelf(folder / "others").glob("*.rows")
    segment.symlink_to(theirs)
    return _tampered(lambda: model.forget(ids=["r3"]), folder / "others")


@attempt(
    "Make a segment a second name of somebody else's file, forget a row",
    before="done, files elsewhere changed",
    now="done, files elsewhere left alone",
)
def a_segment_that_is_a_hard_link(folder: Path) -> str:
    _remembering(folder / "others")
    model = _remembering(folder / "cache")
    [segment] = _shelf(folder / "cache").glob("*.rows")
    segment.unlink()
    [theirs] = _shelf(folder / "others").glob("*.rows")
    os.link(theirs, segment)
    return _tampered(lambda: model.forget(ids=["r3"]), folder / "others")


@attempt(
    "Put a link to another cache in the place of the cache, forget a row",
    before="done, files elsewhere changed",
    now="refused, files elsewhere left alone",
)
def a_cache_that_is_a_link(folder: Path) -> str:
    _remembering(folder / "others")
    model = _remembering(folder / "cache")
    model.set_params(embedding_cache=None)
    (folder / "cache").rename(folder / "gone")
    (folder / "cache").symlink_to(folder / "others", target_is_directory=True)
    return _tampered(lambda: model.forget(ids=["r3"]), folder / "others")


@attempt(
    "Give another folder files whose names are those of damaged segments, link a shelf to it",
    before="done, files elsewhere changed",
    now="refused, files elsewhere left alone",
)
def a_link_that_gets_files_deleted(folder: Path) -> str:
    (folder / "others").mkdir()
    (folder / "others" / "0123456789abcdef.rows").write_bytes(b"somebody's work")
    model = _remembering(folder / "cache")
    (folder / "cache" / ("0" * 32)).symlink_to(folder / "others", target_is_directory=True)
    return _tampered(lambda: model.forget(ids=["r3"]), folder / "others")


@attempt(
    "Name a folder that this library never wrote as a cache of the model, forget a row",
    before="done, files elsewhere changed",
    now="refused, files elsewhere left alone",
)
def a_folder_that_is_no_cache(folder: Path) -> str:
    theirs = folder / "others" / ("0" * 32)
    theirs.mkdir(parents=True)
    (theirs / "0123456789abcdef.rows").write_bytes(b"somebody's work")
    model = _remembering(folder / "cache")
    model.note_copy("embeddings", folder / "others")
    return _tampered(lambda: model.forget(ids=["r3"]), folder / "others")


@attempt(
    "Put a link in the place of a data set's folder, fetch the data set again",
    before="done, files elsewhere changed",
    now="refused, files elsewhere left alone",
)
def a_data_set_that_is_a_link(folder: Path) -> str:
    from erasable.data._cache import cache_lock
    from erasable.data._specs import KNOWN

    (folder / "others").mkdir()
    (folder / "others" / ".partial-work").write_bytes(b"somebody's work")
    spec = KNOWN["mnist"]
    (folder / "data").mkdir()
    (folder / "data" / spec.name).symlink_to(folder / "others", target_is_directory=True)

    def sweep() -> None:
        with cache_lock(spec, folder / "data"):
            pass

    return _tampered(sweep, folder / "others")


@attempt(
    "Keep an own file where a data set is to lie, fetch the data set, which fails",
    before="refused, files elsewhere changed",
    now="refused, files elsewhere left alone",
)
def a_file_where_a_data_set_is_written(folder: Path) -> str:
    from erasable.data._cache import write_entry
    from erasable.data._layouts import Decoded
    from erasable.data._specs import KNOWN

    spec = KNOWN["mnist"]
    (folder / spec.name).mkdir()
    (folder / spec.name / "train-images.npy").write_bytes(b"somebody's work")
    nothing = Decoded(np.zeros((1, 28, 28), np.uint8), np.zeros(1, np.uint8))
    splits = dict.fromkeys(spec.rows, nothing)
    return _tampered(lambda: write_entry(spec, splits, source="", root=folder), folder / spec.name)


@attempt(
    "Keep an own file where a checkpoint is to lie, let the checkpoint be discarded",
    before="done, files elsewhere changed",
    now="done, files elsewhere left alone",
)
def a_file_that_is_no_checkpoint(folder: Path) -> str:
    from erasable.training import discard_checkpoint

    (folder / "checkpoint.safetensors").write_bytes(b"somebody's work")
    return _tampered(lambda: discard_checkpoint(folder), folder)
