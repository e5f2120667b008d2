"""Data sets of a few pixels in every form that real ones have, and a server to fetch them from."""

import contextlib
import gzip
import hashlib
import io
import json
import lzma
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
from PIL import Image

from erasable.data._layouts import (
    CifarBinaryLayout,
    CifarSheetLayout,
    Decoded,
    IdxLayout,
    decoded_digest,
)
from erasable.data._specs import Package, Remote, Spec

ROWS = {"train": 10, "test": 4}


def splits(shape, seed=0):
    """Return random images and labels."""
    rng = np.random.default_rng(seed)
    return {
        split: Decoded(
            rng.integers(256, size=(rows, *shape), dtype=np.uint8),
            rng.integers(3, size=rows, dtype=np.uint8),
        )
        for split, rows in ROWS.items()
    }


def grey_spec(data=None, **changes):
    """Return a data set like MNIST."""
    data = data or splits((4, 3))
    fields = {
        "name": "grey",
        "title": "noise",
        "rows": ROWS,
        "shape": (4, 3),
        "classes": None,
        "layouts": (IdxLayout(),),
        "remotes": (),
        "packages": (),
        "digest": decoded_digest(data),
    }
    return Spec(**{**fields, **changes})


def colour_spec(data=None, **changes):
    """Return a data set like CIFAR-10."""
    data = data or splits((4, 4, 3))
    fields = {
        "name": "colour",
        "shape": (4, 4, 3),
        "classes": ("ant", "bee", "cow"),
        "layouts": (CifarBinaryLayout(), CifarSheetLayout()),
        "digest": decoded_digest(data),
        "hint": "Take the binary version.",
    }
    return grey_spec(**{**fields, **changes})


def idx(array):
    """Return an array as the bytes of an IDX file."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def idx_files(data, *, packed=True):
    """Return the four files of a grey data set."""
    pack = (lambda one: gzip.compress(one, mtime=0)) if packed else bytes
    end = ".gz" if packed else ""
    found = {}
    for split, stem in (("train", "train"), ("test", "t10k")):
        found[f"{stem}-images-idx3-ubyte{end}"] = pack(idx(data[split].images))
        found[f"{stem}-labels-idx1-ubyte{end}"] = pack(idx(data[split].labels))
    return found


def batches(data):
    """Yield names without ending, images and labels, as CIFAR-10 is cut up."""
    for number in range(5):
        part = slice(2 * number, 2 * number + 2)
        yield f"data_batch_{number + 1}", data["train"].images[part], data["train"].labels[part]
    yield "test_batch", data["test"].images, data["test"].labels


def bin_files(data):
    """Return the files of the official binary version."""
    found = {}
    for name, images, labels in batches(data):
        colours = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
        found[f"{name}.bin"] = np.concatenate([labels[:, None], colours], axis=1).tobytes()
    return found


def sheet_files(data):
    """Return PNG files with one image per line, and labels as JSON."""
    found = {}
    for name, images, _ in batches(data):
        buffer = io.BytesIO()
        Image.fromarray(images.reshape(len(images), -1, 3)).save(buffer, "PNG")
        found[f"{name}.png"] = buffer.getvalue()
    for split in ROWS:
        found[f"{split}_lables.json"] = json.dumps(data[split].labels.tolist()).encode()
    return found


def tar(files, *, pack=gzip.compress, prefix="package/"):
    """Return a tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(prefix + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return pack(buffer.getvalue())


def deb(files):
    """Return a Debian package."""
    parts = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": b"odd",
        "data.tar.xz": tar(files, pack=lzma.compress, prefix="./usr/share/datasets/grey/"),
    }
    found = b"!<arch>\n"
    for name, content in parts.items():
        found += f"{name:16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        found += content + b"\n" * (len(content) % 2)
    return found


def zipped(files):
    """Return a zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(f"archive/{name}", content)
    return buffer.getvalue()


def remote(url, name, content):
    """Describe a file on a server."""
    return Remote((f"{url}/{name}",), name, len(content), hashlib.sha256(content).hexdigest())


def package(command, content, *, name="colour-data-1.0.0.tgz"):
    """Describe a package that carries the coloured data set."""
    sha256 = hashlib.sha256(content).hexdigest()
    return Package(tuple(command), name, "colour-data-*.tgz", sha256)


class Server:
    """Serve files on this machine, well or badly.

    Args:
        files: Bytes by name.
        ranges: Whether to answer requests for a part.
        cut: Bytes after which a connection is cut; None for never.
        silent: Whether a connection falls silent instead of being cut.
        status: Status of every answer; None for the usual one.
    """

    def __init__(self, files, *, ranges=True, cut=None, silent=False, status=None):
        self.files = files
        self.ranges = ranges
        self.cut = cut
        self.silent = silent
        self.status = status
        self.ended = threading.Event()
        self.asked = []

    @contextlib.contextmanager
    def running(self):
        """Yield the address."""
        with ThreadingHTTPServer(("127.0.0.1", 0), _handler(self)) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}"
            finally:
                self.ended.set()
                server.shutdown()
                thread.join()


def _handler(state):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            content = state.files.get(self.path.lstrip("/"))
            wanted = self.headers.get("Range")
            state.asked.append(wanted)
            if state.status or content is None:
                self.send_error(state.status or 404)
                return
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
            if state.ranges and start >= len(content):
                self.send_error(416)
                return
            part = content[start:] if state.ranges else content
            self.send_response(206 if wanted and state.ranges else 200)
            if wanted and state.ranges:
                total = len(content)
                self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
            self.send_header("Content-Length", str(len(part)))
            self.send_header("ETag", '"one"')
            self.end_headers()
            self.wfile.write(part[: state.cut])
            if state.silent and state.cut < len(part):
                state.ended.wait(20)

        def log_message(self, *words):
            pass

    return Handler
