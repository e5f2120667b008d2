"""Folders of images, one folder per class, as ImageNet is laid out."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from erasable.data._lazy import LazyImages, reasons
from erasable.data._split import Dataset, Split, drawn, require_known_labels
from erasable.errors import ArgumentError, Problems, listing

SUFFIXES = frozenset(
    ".bmp .gif .jpeg .jpg .pbm .pgm .png .ppm .tif .tiff .webp".split()  # noqa: SIM905 - a list is longer
)
"""Endings of files that count as images, in lower case."""

RESOLUTION = 224
_TESTS = ("test", "val", "validation", "valid")


@dataclass
class _Found:
    """What a walk through a folder finds; names are relative to the root, with slashes."""

    names: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    ignored: int = 0


def load_folder(
    root: Path,
    *,
    test_share: float = 0.2,
    seed: int = 0,
    resolution: int | None = None,
    check: bool = False,
) -> Dataset:
    """Read a folder of images: one folder per class, or ``train/`` and ``test/`` or ``val/`` first.

    Args:
        root: The folder. An image's id is its path from there, its label the folder of its class.
        test_share: Share of each class in the test rows, where the folder has no split.
        seed: Seed of that split.
        resolution: Height and width of the images.
        check: Whether to decode every file once, and name those that are broken.

    Raises:
        ArgumentError: If there is no such folder, classes are empty, links lead out of it, a class
            is only in the test rows, or a file is broken; all at once.
    """
    if not root.is_dir():
        raise ArgumentError(f"Expected a folder of images, but there is no folder {root}.")
    try:
        parts = _parts(root)
        found = {part: _walk(root, part) for part in parts}
    except OSError as error:
        raise ArgumentError(
            f"Expected a folder of images that can be read, but {root} cannot: {error}."
        ) from error
    problems = Problems(str(root))
    for part in found.values():
        _note(problems, part)
    if not any(part.names for part in found.values()):
        problems.note(
            "Expected one folder per class with images in it, but there are no such images."
        )
    splits = {name: _split(root, part, resolution or RESOLUTION) for name, part in found.items()}
    if len(parts) > 1:
        require_known_labels(splits["train"].y, splits[parts[1]].y, problems)
    if check:
        _note_broken(problems, splits)
    problems.raise_if_any()
    ignored = sum(part.ignored for part in found.values())
    remarks = (_left_out(ignored),) if ignored else ()
    if len(parts) > 1:
        return Dataset(
            str(root), splits["train"], splits[parts[1]], source=str(root), remarks=remarks
        )
    rows = splits[parts[0]]
    return drawn(
        str(root), rows, source=str(root), test_share=test_share, seed=seed, remarks=remarks
    )


def _left_out(files: int) -> str:
    if files == 1:
        return "1 file that is not an image was left out"
    return f"{files} files that are not images were left out"


def _parts(root: Path) -> list[str]:
    """Return the folders of the splits, training first; one empty name if there are no splits.

    Raises:
        ArgumentError: If there are splits, and folders beside them that are none.
    """
    folders = {path.name for path in root.iterdir() if path.is_dir() and path.name[0] != "."}
    others = sorted(folders - {"train", *_TESTS})
    if "train" not in folders or not _has_folders(root / "train"):
        return [""]
    if others:
        raise ArgumentError(
            f"Expected train/ and one of {', '.join(f'{name}/' for name in _TESTS)} in {root}, or "
            f"one folder per class, but got train/ and {listing(others)}. Move the others away."
        )
    # ImageNet's own test/ has no labels, so its val/ is what one tests on.
    tests = [name for name in _TESTS if name in folders and _has_folders(root / name)]
    return ["train", *tests[:1]]


def _has_folders(folder: Path) -> bool:
    return any(path.is_dir() for path in folder.iterdir())


def _walk(root: Path, part: str) -> _Found:
    """Collect the images of one split, sorted by name, so that the order of the disk is no matter.

    Links to files are followed if they stay below the root. Links to folders are refused: they
    could lead round in a circle.
    """
    found, top = _Found(), os.path.realpath(root)
    with os.scandir(root / part) as entries:
        ordered = sorted(entries, key=lambda one: one.name)
    for entry in ordered:
        name = f"{part}/{entry.name}" if part else entry.name
        is_class = entry.is_dir() and not entry.name.startswith(".")
        if is_class and entry.is_symlink():
            found.refused.append(name)
        elif is_class:
            images = _images_below(entry.path, name, top, found)
            found.names += images
            found.labels += [entry.name] * len(images)
            found.empty += [] if images else [name]
        else:
            found.ignored += entry.is_file()
    return found


def _images_below(folder: str, name: str, top: str, found: _Found) -> list[str]:
    """Return the images of one class, sorted; strings throughout, for there may be millions."""
    images, left = [], [(folder, name)]
    while left:
        folder, name = left.pop()
        with os.scandir(folder) as entries:
            ordered = list(entries)
        for entry in ordered:
            inside = f"{name}/{entry.name}"
            is_hidden = entry.name.startswith(".")
            if entry.is_dir(follow_symlinks=False):
                left += [] if is_hidden else [(entry.path, inside)]
            elif entry.is_symlink() and entry.is_dir():
                found.refused.append(inside)
            elif is_hidden or os.path.splitext(entry.name)[1].lower() not in SUFFIXES:
                found.ignored += 1
            elif entry.is_symlink() and not _is_file_below(entry.path, top):
                found.refused.append(inside)
            else:
                images.append(inside)
    return sorted(images)


def _is_file_below(path: str, top: str) -> bool:
    target = os.path.realpath(path)
    return os.path.isfile(target) and os.path.commonpath([target, top]) == top


def _note(problems: Problems, found: _Found) -> None:
    problems.note_items(
        found.refused,
        "Expected only links to files in the folder, but these lead elsewhere",
        remedy="Copy what they point to.",
    )
    problems.note_items(
        found.empty,
        "Expected images in every class, but these folders have none",
        remedy="Fill or delete them.",
    )
    odd = [name for name in found.names if not _is_text(name)]
    problems.note_items(odd, "Expected file names in UTF-8, but these are not")


def _note_broken(problems: Problems, splits: dict[str, Split]) -> None:
    broken: dict[str, str] = {}
    for split in splits.values():
        broken |= split.X.broken()
    if broken:
        problems.note(
            f"Expected images that can be decoded, but {len(broken)} cannot: {reasons(broken)}."
        )


def _split(root: Path, found: _Found, resolution: int) -> Split:
    images = LazyImages(root, found.names, resolution=resolution)
    return Split(images, np.array(found.labels, dtype=str), found.names)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
