"""Who may hold the lock beside whom; nobody waits for ever, and interruptions leave it."""

import contextlib
import queue
import signal
import threading

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from erasable.errors import StateError
from erasable.memory import _lock
from erasable.memory._lock import ReadersWriterLock

KINDS = ("reading", "changing", "writing")
PATIENCE = 20
"""Seconds after which a thread counts as stuck."""


class Worker:
    """A thread that takes and leaves holds when it is told."""

    def __init__(self, lock):
        self.holds, self.pending = [], None
        self._lock, self._orders = lock, queue.Queue()
        self._granted, self._entered = threading.Event(), []
        self._error = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def ask(self, kind):
        self.pending = kind
        self._granted.clear()
        self._orders.put(kind)

    def settle(self, timeout=None):
        """Take note of what was granted or refused; return the refusal."""
        if self.pending is None or not self._granted.wait(timeout):
            return None
        error, self._error, kind, self.pending = self._error, None, self.pending, None
        if error is None:
            self.holds.append(kind)
        return error

    def leave(self):
        self.holds.pop()
        self._granted.clear()
        self._orders.put("leave")
        assert self._granted.wait(PATIENCE)

    def end(self):
        self._orders.put(None)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def _work(self):
        for order in iter(self._orders.get, None):
            if order == "leave":
                self._entered.pop().__exit__(None, None, None)
            else:
                hold = getattr(self._lock, order)()
                try:
                    hold.__enter__()
                except StateError as error:
                    self._error = error
                else:
                    self._entered.append(hold)
            self._granted.set()


class Threads(RuleBasedStateMachine):
    """Three threads that take and leave holds in any order."""

    def __init__(self):
        super().__init__()
        lock = ReadersWriterLock()
        self.workers = [Worker(lock) for _ in range(3)]

    def others(self, worker):
        return [other for other in self.workers if other is not worker]

    def may_not_wait(self, worker, kind):
        """Tell whether nothing that others hold or ask for can be a reason to wait."""
        others = self.others(worker)
        theirs = {kind for other in others for kind in [*other.holds, other.pending]}
        if kind == "reading":
            return bool({"reading", "writing"} & {*worker.holds}) or "writing" not in theirs
        if kind == "changing" or "writing" in worker.holds:
            return bool({"changing", "writing"} & {*worker.holds}) or not (
                theirs & {"changing", "writing"}
            )
        return not theirs - {None}

    @precondition(lambda self: any(worker.pending is None for worker in self.workers))
    @rule(place=st.integers(0, 2), kind=st.sampled_from(KINDS))
    def ask(self, place, kind):
        worker = self.workers[place]
        if worker.pending is not None:
            return
        is_wrong = kind != "reading" and "reading" in worker.holds
        is_refused = is_wrong and "writing" not in worker.holds
        waits = not is_refused and not self.may_not_wait(worker, kind)
        worker.ask(kind)
        error = worker.settle(0.002 if waits else PATIENCE)
        assert (error is not None) == is_refused
        assert waits or worker.pending is None

    @rule(place=st.integers(0, 2))
    def leave(self, place):
        worker = self.workers[place]
        if worker.pending is None and worker.holds:
            worker.leave()

    @invariant()
    def nobody_holds_anything_beside_a_writer_and_one_changes(self):
        for worker in self.workers:
            worker.settle(0)
        holding = {place: {*worker.holds} for place, worker in enumerate(self.workers)}
        changers = [place for place, held in holding.items() if held & {"changing", "writing"}]
        assert len(changers) <= 1
        if any("writing" in held for held in holding.values()):
            assert [place for place, held in holding.items() if held] == changers

    def teardown(self):
        """Leave everything: who waits must be let in before long."""
        while any(worker.holds or worker.pending for worker in self.workers):
            free = [worker for worker in self.workers if worker.pending is None and worker.holds]
            for worker in free:
                worker.leave()
            if not free:
                waiting = [worker for worker in self.workers if worker.pending]
                granted = threading.Event()
                for _ in range(PATIENCE * 100):
                    for worker in waiting:
                        worker.settle(0.01)
                    if any(worker.holds for worker in waiting):
                        granted.set()
                        break
                assert granted.is_set(), "everybody waits"
        for worker in self.workers:
            worker.end()


TestThreads = Threads.TestCase


def run(work):
    """Run work in a thread; return whether it ended before it counted as stuck."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return not thread.is_alive()


def can_write(lock):
    def write():
        with lock.writing():
            pass

    return run(write)


def can_read(lock):
    def read():
        with lock.reading():
            pass

    return run(read)


@pytest.mark.parametrize("kind", ["changing", "writing"])
def test_a_reader_that_would_change_is_refused_instead_of_waiting_for_itself(kind):
    lock = ReadersWriterLock()
    with lock.reading(), pytest.raises(StateError, match="this thread is still reading them"):
        getattr(lock, kind)().__enter__()
    assert can_write(lock)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_inside_a_hold_ends_it(kind):
    lock = ReadersWriterLock()
    with pytest.raises(ZeroDivisionError), getattr(lock, kind)():
        raise ZeroDivisionError
    assert can_write(lock)


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer that interrupts")
@pytest.mark.parametrize("kind", KINDS)
def test_a_hold_that_is_interrupted_anywhere_is_left(kind):
    delays = np.random.default_rng(0).uniform(5e-6, 1e-4, 300).tolist()
    lock, before = ReadersWriterLock(), signal.signal(signal.SIGALRM, interrupt)
    try:
        for delay in delays:
            with contextlib.suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, delay)
                while True:
                    with getattr(lock, kind)():
                        pass
            assert can_write(lock)
            assert can_read(lock)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_change_goes_before_readers_that_come_later():
    lock, order = ReadersWriterLock(), []
    reads, is_reading, may_leave = [], threading.Event(), threading.Event()

    def first():
        with lock.reading():
            is_reading.set()
            may_leave.wait(PATIENCE)

    def write():
        with lock.writing():
            order.append("change")

    def later():
        with lock.reading():
            order.append("reading")

    threads = [threading.Thread(target=work) for work in (first, write)]
    threads[0].start()
    is_reading.wait(PATIENCE)
    threads[1].start()
    while lock._writer is None:  # until it waits for the reader
        pass
    reads = [threading.Thread(target=later) for _ in range(3)]
    for thread in reads:
        thread.start()
    may_leave.set()
    for thread in [*threads, *reads]:
        thread.join(PATIENCE)
    assert order == ["change", "reading", "reading", "reading"]


def test_changes_one_after_the_other_do_not_keep_readers_out_for_ever(monkeypatch):
    monkeypatch.setattr(_lock, "_PATIENCE", 0.001)
    lock, has_read = ReadersWriterLock(), threading.Event()

    def read():
        with lock.reading():
            has_read.set()

    def write():
        while not has_read.is_set():
            with lock.writing():
                pass

    writers = [threading.Thread(target=write, daemon=True) for _ in range(3)]
    for thread in writers:
        thread.start()
    assert run(read)
    for thread in writers:
        thread.join(PATIENCE)
