"""Many threads read, one at a time changes."""

import contextlib
import threading
import time
from collections.abc import Iterator

from erasable.errors import StateError

_PATIENCE = 0.005
"""Seconds that changes may keep a reader waiting, one after the other."""


class ReadersWriterLock:
    """Let threads read side by side, and one at a time change what they read.

    A change that waits goes before readers that come later, so that a forget is not put off by a
    stream of predictions. A reader that changes have kept waiting for some time goes before the
    next change. All holds are reentrant: who writes may read, and who reads may read again,
    also while a change waits.

    Interruptions (Ctrl-C) may come anywhere. A hold ends by one step that nothing can come between,
    and that does no harm if the hold had not begun.
    """

    def __init__(self) -> None:
        self._turn = threading.RLock()  # of those who change, one at a time
        self._state = threading.Lock()  # taken as it is: a Condition can be interrupted half taken
        self._signal = threading.Condition(self._state)
        self._readers: set[int] = set()  # threads
        self._writer: int | None = None  # the thread that writes, or waits for readers to leave
        self._impatient: set[int] = set()  # readers that the next change lets go first

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Hold everything still. Other threads may read, too; none writes."""
        me = threading.get_ident()
        if me in self._readers or self._writer == me:
            yield
            return
        try:
            self._enter(me)
            yield
        finally:
            self._readers.discard(me)
            if self._writer is not None:
                self._wake()

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Keep other threads from changing anything; they may read, until this one writes.

        For what must be found out, or written to disk, on the same state that is then changed.

        Raises:
            StateError: If this thread is reading: it would wait for itself.
        """
        if threading.get_ident() in self._readers:
            raise StateError(
                "Expected rows to be changed after they have been read, but this thread is still "
                "reading them. Call forget(), remember() or save() when the reading has returned."
            )
        with self._turn:
            yield

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Keep every other thread out.

        Raises:
            StateError: If this thread is reading: it would wait for itself.
        """
        with self.changing():
            before = self._writer
            try:
                self._shut_out(threading.get_ident())
                yield
            finally:
                self._writer = before
                if before is None:
                    self._wake()

    def _enter(self, me: int) -> None:
        with self._state:
            if self._writer is not None:
                self._await_turn(me)
            self._readers.add(me)

    def _await_turn(self, me: int) -> None:
        end = time.monotonic() + _PATIENCE
        try:
            while self._writer is not None:
                self._signal.wait(_PATIENCE)
                if time.monotonic() > end:
                    self._impatient.add(me)
        finally:
            self._impatient.discard(me)
            self._signal.notify_all()

    def _shut_out(self, me: int) -> None:
        if self._writer == me:
            return
        with self._state:
            while self._impatient:
                self._signal.wait(_PATIENCE)
            self._writer = me
            while self._readers:
                self._signal.wait(_PATIENCE)  # not for ever: an interrupted reader may not wake us

    def _wake(self) -> None:
        with self._state:
            self._signal.notify_all()
