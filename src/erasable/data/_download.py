"""Downloads that survive a cut connection, and end with the right bytes or with none.

Bytes go to a ``.part`` file that a later call takes up. It gets its real name only once its SHA-256
is the recorded one.
"""

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from erasable import __version__
from erasable.data._specs import Remote
from erasable.errors import StoreError

TIMEOUT = 30.0
"""Seconds without a byte after which a connection counts as dead."""

_CHUNK = 1 << 18
_NETWORK = (urllib.error.URLError, http.client.HTTPException, OSError)

Report = Callable[[int], None]
"""Told how many bytes of the file are there."""


def download(remote: Remote, folder: Path, *, report: Report = lambda done: None) -> Path:
    """Return a file of an official source, fetched into ``folder`` unless it is there.

    Raises:
        StoreError: If no address has it, or the disk cannot be written; what was received stays in
            a ``.part`` file.
    """
    target = folder / remote.file
    if target.is_file() and sha256_of(target) == remote.sha256:
        return target
    failures = []
    for url in remote.urls:
        try:
            return _Download(url, remote, target, report).run()
        except _NETWORK as error:
            if isinstance(error, StoreError):
                raise
            failures.append(f"{url}: {in_words(error)}")
    raise StoreError("; ".join(failures))


def sha256_of(path: Path) -> str:
    """Return a file's hex SHA-256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def in_words(error: BaseException) -> str:
    """Say what a network error is about, without its wrapping."""
    if isinstance(error, urllib.error.HTTPError):
        return f"{error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    return str(error) or type(error).__name__


class _Download:
    """One file from one address."""

    def __init__(self, url: str, remote: Remote, target: Path, report: Report) -> None:
        self._url = url
        self._remote = remote
        self._target = target
        self._part = target.with_name(f"{target.name}.part")
        self._report = report
        self._etag: str | None = None

    def run(self) -> Path:
        """Fetch until the file is whole and right; bytes of an earlier attempt may not fit."""
        was_there = self._have() > 0
        self._fill()
        if was_there and not self._is_right():
            self._part.unlink()
            self._fill()
        if not self._is_right():
            self._part.unlink()
            raise http.client.HTTPException(
                f"{self._remote.file} has another SHA-256 than the recorded "
                f"{self._remote.sha256[:16]}…"
            )
        self._part.replace(self._target)
        return self._target

    def _fill(self) -> None:
        """Connect again for as long as each connection brings the file further."""
        if self._have() > self._remote.size:
            self._part.unlink()
        while (before := self._have()) < self._remote.size:
            problem = self._connect(before)
            if self._have() >= self._remote.size:
                return
            if self._have() <= before:
                raise problem or http.client.HTTPException(
                    f"the connection ends at {self._have()} of {self._remote.size} bytes"
                )

    def _connect(self, have: int) -> Exception | None:
        """Receive what one connection gives; return the problem that ended it, if any."""
        request = urllib.request.Request(self._url, headers=self._headers(have))  # noqa: S310 - addresses are constants of this package
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310
                self._receive(response, have)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not have:
                raise
            self._part.unlink()  # the server's file is shorter than what is there: start over
            return self._connect(0)
        except StoreError:
            raise
        except _NETWORK as error:
            return error
        return None

    def _headers(self, have: int) -> dict[str, str]:
        headers = {"User-Agent": f"erasable/{__version__}", "Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        if have and self._etag:
            headers["If-Range"] = self._etag
        return headers

    def _receive(self, response: http.client.HTTPResponse, have: int) -> None:
        goes_on = response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        is_resumed = have > 0 and response.status == http.HTTPStatus.PARTIAL_CONTENT and goes_on
        etag = response.headers.get("ETag")
        self._etag = etag if etag and not etag.startswith("W/") else None
        done = have if is_resumed else 0
        try:
            with self._part.open("ab" if is_resumed else "wb") as file:
                while chunk := _read(response, min(_CHUNK, self._remote.size - done)):
                    file.write(chunk)
                    done += len(chunk)
                    self._report(done)
        except _CutError as error:
            raise error.problem from None
        except OSError as error:  # not the network: those are cuts
            raise StoreError(
                f"Expected to write {self._part}, but: {error.strerror or error}."
            ) from error

    def _have(self) -> int:
        return self._part.stat().st_size if self._part.exists() else 0

    def _is_right(self) -> bool:
        return sha256_of(self._part) == self._remote.sha256


class _CutError(Exception):
    """A problem of the network, told apart from one of the disk."""

    def __init__(self, problem: Exception) -> None:
        super().__init__(str(problem))
        self.problem = problem


def _read(response: http.client.HTTPResponse, size: int) -> bytes:
    try:
        return response.read1(size) if size else b""
    except _NETWORK as error:
        raise _CutError(error) from error
