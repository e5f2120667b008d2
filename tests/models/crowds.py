"""Threads that ask a model while another one changes it, and what is wrong with their answers."""

import contextlib
import copy
import itertools
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Crowd:
    """What readers got beside one thread that made changes.

    Attributes:
        answers: Number of answers.
        errors: What was raised instead, by type and message.
        stale: Answers of a state that had ended before the question was put.
        torn: Answers of no state at all.
    """

    answers: int = 0
    errors: Counter = field(default_factory=Counter)
    stale: int = 0
    torn: int = 0


def questions(queries, top=3):
    """Return questions to a classifier; an answer is a list of names and an array of numbers."""

    def votes(model):
        found = model.votes(queries, top)
        return [found.ids.tolist(), found.labels.tolist()], np.c_[found.weights, found.rest]

    def find(model):
        found = list(itertools.chain(*model.find(queries)))
        return [match.id for match in found], np.array([match.distance for match in found])

    return {
        "predict": lambda model: (model.predict(queries).tolist(), np.zeros(0)),
        "predict_proba": lambda model: ([], model.predict_proba(queries)),
        "votes": votes,
        "classes_": lambda model: (model.classes_.tolist(), np.zeros(0)),
        "find": find,
    }


def ask_beside(model, steps, asked, *, readers=4, within=1e-9):
    """Put questions from several threads while this one makes changes; judge every answer.

    The right answers of all states are found out first, in a copy of the model.

    Args:
        model: The model.
        steps: Changes: functions of a model.
        asked: Questions by name: functions of a model.
        readers: Number of threads that ask.
        within: How far numbers of an answer may lie from the right ones.
    """
    right = _answers_of_states(model, steps, asked)
    found, begun, done = Crowd(), [0], [0]
    is_over, lock = threading.Event(), threading.Lock()

    def read(offset):
        for name in itertools.islice(itertools.cycle(asked), offset, None):
            if is_over.is_set():
                return
            first = done[0]
            try:
                answer = asked[name](model)
            except Exception as error:
                with lock:
                    found.errors[f"{type(error).__name__}: {error}"] += 1
                continue
            last = begun[0]
            with lock:
                found.answers += 1
                fits = (_is_same(answer, state[name], within) for state in right[first : last + 1])
                if not any(fits):
                    is_old = any(_is_same(answer, state[name], within) for state in right[:first])
                    found.stale += is_old
                    found.torn += not is_old

    with _threads(read, readers, is_over):
        for step in steps:
            begun[0] += 1
            step(model)
            done[0] += 1
    return found


def _answers_of_states(model, steps, asked):
    twin = copy.deepcopy(model)
    right = [{name: ask(twin) for name, ask in asked.items()}]
    for step in steps:
        step(twin)
        right.append({name: ask(twin) for name, ask in asked.items()})
    return right


def _is_same(left, right, within):
    is_named_alike = left[0] == right[0] and left[1].shape == right[1].shape
    return is_named_alike and np.allclose(left[1], right[1], rtol=0, atol=within)


@contextlib.contextmanager
def _threads(work, count, is_over):
    """Run work in threads that take turns as often as they can, until the block is left."""
    before = sys.getswitchinterval()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
