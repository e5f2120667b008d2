"""Attempts by hostile files and links: to remove what is not ours, to crash, to take all memory."""

import os
import resource
import select
import signal
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from adversary.attempts import attempt, outcome
from erasable import SPMClassifier
from erasable.errors import ErasableError
from erasable.training import Training

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


# -- files that lie, never end, or expand ---------------------------------------------------------

MOST = 2**30
"""Bytes beyond those of the libraries that reading any of these files may take."""


def _read(words: str, folder: Path, *, seconds: float = 60) -> str:
    """Run words in a process with little memory; return the class of the error, or ``read``."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        _answer(words, folder, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        is_done = select.select([answer], [], [], seconds)[0]
        if not is_done:
            os.kill(child, signal.SIGKILL)
        word = answer.read().decode()
    os.waitpid(child, 0)
    return word or ("killed" if is_done else "never ended")


def _answer(words: str, folder: Path, writer: int) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST, used + MOST))
    warnings.simplefilter("ignore")
    try:
        exec(words, {"folder": folder, "Path": Path})  # noqa: S102 - our own words
        word = "read"
    except ErasableError:
        word = "refused"
    except BaseException as error:
        word = type(error).__name__
    os.write(writer, word.encode())
    os._exit(0)


def _learnt(call: Callable[[], object]) -> str:
    """Run what trains in this process: threads of torch do not survive a fork."""
    try:
        return outcome(lambda: (call(), "read")[1])
    except Exception as error:
        return type(error).__name__


def _npy(shape: tuple[int, ...], descr: str = "|u1", body: bytes = b"") -> bytes:
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body


def _npz(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


ARRAYS = "from erasable.data import read_arrays; read_arrays(folder / 'rows.npz')"


@attempt(
    "Read rows that expand from 4 MB to 4 GB", before="MemoryError", now="refused", is_slow=True
)
def arrays_that_expand(folder: Path) -> str:
    with (
        zipfile.ZipFile(folder / "rows.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("X.npy", "w", force_zip64=True) as member,
    ):
        member.write(_npy((2**12, 2**20)))
        for _ in range(2**8):
            member.write(bytes(2**24))
    return _read(ARRAYS, folder)


@attempt("Read rows whose header says 10^15 bytes", before="MemoryError", now="refused")
def arrays_with_a_wrong_header(folder: Path) -> str:
    _npz(folder / "rows.npz", X=_npy((10**6, 10**9)))
    return _read(ARRAYS, folder)


@attempt("Read rows of no bytes, 10^18 of them", before="MemoryError", now="refused")
def rows_without_bytes(folder: Path) -> str:
    _npz(folder / "rows.npz", X=_npy((10**15, 0)), ids=_npy((10**15,), "<U0"))
    return _read(ARRAYS, folder)


@attempt("Read rows whose archive says 10^15 bytes", before="MemoryError", now="refused")
def arrays_with_a_wrong_archive(folder: Path) -> str:
    path = _npz(folder / "rows.npz", X=_npy((10**6, 10**9)))
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02") + 24
    data[at : at + 4] = (2**32 - 2).to_bytes(4, "little")
    path.write_bytes(data)
    return _read(ARRAYS, folder)


@attempt("Read rows that are Python objects", before="refused", now="refused")
def arrays_of_objects(folder: Path) -> str:
    np.savez(folder / "rows.npz", X=np.array([{}, []], dtype=object))
    return _read(ARRAYS, folder)


@attempt("Read rows from a pipe that nobody writes to", before="never ended", now="refused")
def a_pipe(folder: Path) -> str:
    os.mkfifo(folder / "rows.npz")
    return _read(ARRAYS, folder, seconds=5)


@attempt("Read a table with a cell of 10^9 characters", before="MemoryError", now="refused")
def a_table_with_a_long_cell(folder: Path) -> str:
    with (folder / "rows.csv").open("wb") as file:
        file.write(b"a,label\n")
        file.truncate(2 * 10**9)  # zeros that take no place
    return _read(
        "from erasable.data import load_dataset; load_dataset(str(folder / 'rows.csv'))", folder
    )


@attempt("Read a table with 10^5 columns", before="read", now="read")
def a_table_with_many_columns(folder: Path) -> str:
    names = ",".join(f"c{number}" for number in range(20_000))
    row = ",".join("0" for number in range(20_000))
    lines = [f"{names},label", *(f"{row},{label}" for label in "abab")]
    (folder / "rows.csv").write_text("\n".join(lines))
    return _read(
        "from erasable.data import load_dataset; load_dataset(str(folder / 'rows.csv'))", folder
    )


@attempt("Read a Parquet file of 10^9 equal cells", before="refused", now="refused", is_slow=True)
def a_parquet_file_that_expands(folder: Path) -> str:
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema([("a", pa.int64()), ("label", pa.int64())])
    with parquet.ParquetWriter(folder / "rows.parquet", schema, compression="zstd") as writer:
        part = pa.table({"a": np.zeros(10**7, np.int64), "label": np.zeros(10**7, np.int64)})
        for _ in range(50):
            writer.write_table(part)
    return _read(
        "from erasable.data import load_dataset; load_dataset(str(folder / 'rows.parquet'))", folder
    )


def _picture(path: Path, size: tuple[int, int]) -> None:
    """Write a PNG file of black pixels without holding them."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")
        )

    width, height = size
    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    packer = zlib.compressobj(1)
    line = bytes(3 * width + 1)
    rows = b"".join(packer.compress(line) for _ in range(min(height, 10_000))) + packer.flush()
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    path.write_bytes(data)


IMAGES = (
    "from erasable.data import load_dataset; "
    "found = load_dataset(str(folder / 'images'), test_share=0.5, resolution=8); found.train.X[:]"
)


@attempt("Decode a picture that says it is a million pixels wide", before="refused", now="refused")
def a_picture_with_a_wrong_size(folder: Path) -> str:
    for place in range(4):
        _picture(folder / "images" / "a" / f"{place}.png", (10, 10))
    path = folder / "images" / "a" / "0.png"
    for place in range(4):
        data = bytearray((folder / "images" / "a" / f"{place}.png").read_bytes())
        data[16:24] = (10**6).to_bytes(4, "big") * 2
        data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
        path.with_name(f"{place}.png").write_bytes(data)
    return _read(IMAGES, folder)


@attempt("Decode a pipe in a folder of pictures", before="never ended", now="refused")
def a_pipe_among_pictures(folder: Path) -> str:
    (folder / "images" / "a").mkdir(parents=True)
    os.mkfifo(folder / "images" / "a" / "0.png")
    for place in range(1, 4):
        _picture(folder / "images" / "a" / f"{place}.png", (10, 10))
    words = "found = LazyImages(folder / 'images/a', ['0.png'], resolution=8)[:]"
    return _read(f"from erasable.data import LazyImages; {words}", folder)


@attempt("Read a kept run that is nested 100,000 deep", before="RecursionError", now="refused")
def a_deep_run(folder: Path) -> str:
    words = (
        "from erasable.bench._runs import Runs, _digest; "
        "(folder / f'{_digest({})}.json').write_text('[' * 100_000); Runs(folder).find({})"
    )
    return _read(words, folder)


@attempt("Read a kept run that is /dev/zero", before="MemoryError", now="refused")
def an_endless_run(folder: Path) -> str:
    words = (
        "from erasable.bench._runs import Runs, _digest; "
        "(folder / f'{_digest({})}.json').symlink_to('/dev/zero'); Runs(folder).find({})"
    )
    return _read(words, folder)


@attempt("Score a pack whose arrays expand", before="MemoryError", now="refused")
def a_pack_with_a_wrong_header(folder: Path) -> str:
    _npz(folder / "pack.npz", head=_npy((10**6, 10**9)), oracles=_npy((1,), body=b"0"))
    return _read(
        "from erasable.bench._packs import load_pack; load_pack(folder / 'pack.npz')", folder
    )


@attempt("Start from weights that are /dev/zero", before="refused", now="refused")
def endless_weights(folder: Path) -> str:
    (folder / "w.safetensors").symlink_to("/dev/zero")
    model = SPMClassifier("mlp", epochs=0)
    return _learnt(lambda: model.fit(X, Y, init=folder / "w.safetensors"))


@attempt("Start from weights that are a pipe", before="never ended", now="refused")
def piped_weights(folder: Path) -> str:
    os.mkfifo(folder / "w.safetensors")
    model = SPMClassifier("mlp", epochs=0)
    return _learnt(lambda: model.fit(X, Y, init=folder / "w.safetensors"))


@attempt("Resume from a checkpoint without its history", before="KeyError", now="refused")
def a_checkpoint_without_history(folder: Path) -> str:
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    training = Training(checkpoint=folder)

    def fit() -> SPMClassifier:
        return SPMClassifier("mlp", epochs=1, random_state=0, training=training).fit(X, Y)

    fit()
    path = folder / "checkpoint.safetensors"
    with safe_open(path, "pt") as file:
        meta = dict(file.metadata())
    meta.pop("history")
    save_file(load_file(path), path, meta)
    return _learnt(fit)


@attempt(
    "Read a data set from an archive of 120 kB that expands to 1 GB",
    before="MemoryError",
    now="refused",
    is_slow=True,
)
def an_archive_that_expands(folder: Path) -> str:
    import bz2
    import tarfile

    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 2**30
    packer = bz2.BZ2Compressor(9)
    with (folder / "archive.tar.bz2").open("wb") as file:
        file.write(packer.compress(info.tobuf(tarfile.GNU_FORMAT)))
        for _ in range(2**6):
            file.write(packer.compress(b"a" * 2**24))
        file.write(packer.flush())
    words = (
        "from erasable.data._members import read_members; "
        "read_members(folder / 'archive.tar.bz2', ['train-images-idx3-ubyte'], limit=2**20)"
    )
    return _read(words, folder)


@attempt("Read labels of a data set that are nested deeply", before="RecursionError", now="refused")
def deep_labels(folder: Path) -> str:
    words = (
        "from erasable.data._layouts import _json_labels; "
        "_json_labels('labels', {'labels': b'[' * 100_000}, 5)"
    )
    return _read(words, folder)
