"""Check from the stored embeddings that a model is what it would be without some rows."""

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from erasable.errors import ArgumentError
from erasable.memory import (
    Difference,
    Memory,
    Record,
    Selection,
    canonical_order,
    check_grid,
    check_rows,
    compare_memories,
    copy_with_kept,
    utc_now,
)
from erasable.models._audit_answers import Answering, Answers, Compared
from erasable.models._audit_disk import compare_saved, describe_copies
from erasable.models._audit_report import FORMAT, Audit, Verdict
from erasable.models._audit_request import Request, reach_of_request, resolve_request
from erasable.models._audit_views import Views, stored_queries
from erasable.models._canonical import canonical_digest
from erasable.models._level import Reach
from erasable.models._memory_classifier import MemoryClassifier
from erasable.models._memory_model import MemoryModel
from erasable.models._stateless import RECORD
from erasable.typing import Float32s

if TYPE_CHECKING:
    from erasable.models._spm_generator import SPMGenerator


def audit(
    model: MemoryModel,
    *,
    ids: Any = None,
    groups: Any = None,
    classes: Any = None,
    queries: Any = None,
    simulate: bool = False,
    missing_ok: bool = False,
    on_step: Callable[[str], None] | None = None,
) -> Audit:
    """Check that rows are gone from a model, or simulate removing them; the model is not changed.

    A row that is named and live is ``still there``, and the audit ends. With ``simulate`` it is
    forgotten in a copy of the memory, as `forget` does it, and the copy is audited. A memory is
    built anew from the stored embeddings of the other rows, in another order, as if the named rows
    had never been there, and both are compared: canonical state byte for byte, digest, everything
    that is kept of rows, and answers bit for bit: of every view of a classifier, or what a
    generator draws of a few classes. Rows that were forgotten before need not be named: without
    names, the model as it stands is compared with one built anew. The rows of its saved copies are
    compared, too.

    It takes time and memory in proportion to the rows and their size; see the page on audits.

    Args:
        model: A fitted classifier with a memory, or a generator.
        ids: Ids of rows.
        groups: Groups; all their rows.
        classes: Labels; all their rows.
        queries: Inputs to ask both classifiers; embeddings of stored rows if not given, among them
            those of the named ones.
        simulate: Audit what the model would be without the rows that are still there.
        missing_ok: Skip names that nothing is known of instead of raising.
        on_step: Called with each step before it is taken.

    Returns:
        An `Audit`; print it. ``is_verified`` says whether no difference was found, ``level`` how
        far forgetting these rows reaches, ``not_verified`` what an audit cannot see.

    Raises:
        RowIdError: If a name is neither in the memory nor known as forgotten.

    Examples:
        >>> from erasable import SPMClassifier
        >>> model = SPMClassifier("identity").remember([[0.0], [1.0], [5.0]], ["a", "a", "b"])
        >>> print(str(audit(model, ids=[1])).splitlines()[0])
        still there: 1 row was not forgotten
        >>> print(str(audit(model, ids=[1], simulate=True)).splitlines()[0])
        simulated: exact, verified for a copy; the model still holds these rows
    """
    if not isinstance(model, MemoryModel):
        raise ArgumentError(f"Expected a model with a memory, but got {type(model).__name__}.")
    start = time.perf_counter()
    answering = _answering(model, queries)
    with model.memory.live.lock.changing():  # the request and the copy are of one state
        request = resolve_request(
            model.memory, ids=ids, groups=groups, classes=classes, missing_ok=missing_ok
        )
        digest = model.weights_digest
        reach = reach_of_request(model, request, digest)
        work = _Work(model, request, digest, on_step or (lambda _: None))
    if simulate or not request.selection.ids:
        work.run(answering)
    return _report(work, reach, start)


class _Work:
    """An audit in progress; it ends at the first difference.

    Args:
        model: The model.
        request: What to audit.
        digest: Digest of the weights.
        on_step: Where to tell of steps.
    """

    def __init__(
        self, model: MemoryModel, request: Request, digest: str, on_step: Callable[[str], None]
    ) -> None:
        on_step("copying the memory")
        self.model = model
        self.request = request
        self.digest = digest
        self.subject = copy_with_kept(model.memory)
        self.rebuilt: Memory | None = None
        self.compared = Compared()
        self.difference: Difference | None = None
        self.not_verified: list[str] = []
        self._on_step = on_step

    def run(self, answering: Answering) -> None:
        """Compare part after part."""
        parts = (self._table, lambda: self._state(answering), self._weights, self._disk)
        for compare in parts:
            self.difference = compare()
            if self.difference is not None:
                return
        self.not_verified += _same_inputs(self.subject)
        self.not_verified += describe_copies(self.model, list(self.request.selection.forgotten_ids))

    def _table(self) -> Difference | None:
        return check_rows(self.subject.live) or check_grid(self.subject.live)

    def _state(self, answering: Answering) -> Difference | None:
        subject, selection = self.subject, self.request.selection
        answers = answering(subject, selection)
        odd = answers.check()
        if odd is not None:
            return odd
        order = _others(subject, selection)
        records, embeddings = [subject.record(p) for p in order], subject.table.embeddings[order]
        if selection.ids:
            self._on_step("forgetting in the copy")
            answers.warm(subject)
            subject.drop(selection)
        self._on_step("building anew")
        self.rebuilt = _built_anew(subject, records, embeddings)
        found = compare_memories(subject, self.rebuilt)
        if found is not None or not len(subject):
            return found
        return self._answers(answers, self.rebuilt)

    def _answers(self, answers: Answers, rebuilt: Memory) -> Difference | None:
        found = answers.compare(self.subject.live, rebuilt.live, self.compared, self._on_step)
        self.not_verified += [
            f"what is kept as {name!r}: it was compared by answers only."
            for name in self.compared.not_compared
        ]
        return found

    def _weights(self) -> Difference | None:
        found = getattr(self.model.network_, RECORD, None)
        if found is None or found[0] == self.digest:
            return None
        return Difference("weights", "digest", self.digest, found[0], "in their training record")

    def _disk(self) -> Difference | None:
        with self.model.memory.live.lock.changing():
            for place in self.model.places_.values():
                self._on_step(f"comparing with {place.path}")
                found, sentences = compare_saved(self.model.memory, place)
                self.not_verified += sentences
                if found is not None:
                    return found
        return None


def _answering(model: MemoryModel, queries: Any) -> Answering:
    """Return how answers of a kind of model are compared."""
    if isinstance(model, MemoryClassifier):
        given = queries
        if given is not None:
            given = list(model._queries(model._check_inputs(queries, reset=False)))
        return lambda memory, rows: Views(model, given or [stored_queries(memory, rows)])
    if queries is not None:
        raise ArgumentError("Expected no queries: a generator is asked for images of its classes.")
    from erasable.models._audit_drawings import Drawings  # only who has diffusers has a generator

    return partial(Drawings.of, cast("SPMGenerator", model))


def _others(memory: Memory, selection: Selection) -> list[int]:
    """Return the positions of the rows that are not selected, in an order of their own."""
    gone = set(selection.ids)
    order = [p for p in canonical_order(memory.live) if memory.table.infos[p].id not in gone]
    shuffled: list[int] = np.random.default_rng(0).permutation(np.array(order, np.int64)).tolist()
    return shuffled


def _built_anew(memory: Memory, records: list[Record], embeddings: Float32s) -> Memory:
    """Return a new memory like another, with rows as they are stored and nothing else."""
    anew = Memory(memory.dim, grid=memory.grid)
    anew.restore(embeddings, records)  # names as they are stored, whatever their form
    return anew


def _same_inputs(memory: Memory) -> list[str]:
    """Say whether rows are left whose input is that of a forgotten one."""
    marks = memory.tombstones.marks
    if not len(marks):
        return []
    contents = [info.content for info in memory.table.infos]
    count = sum(c is not None and marks.has_content(c) for c in contents)
    if not count:
        return []
    return [
        f"{count} rows that stay: they have the very input of a forgotten row, under other ids."
    ]


def _report(work: _Work, reach: Reach, start: float) -> Audit:
    selection, model = work.request.selection, work.model
    sources = model._known(work.digest).sources
    digests: list[str | None] = [None, None]
    if work.rebuilt is not None:
        memories = (work.subject, work.rebuilt)
        digests = [canonical_digest(model, memory, work.digest) for memory in memories]
    return Audit(
        format=FORMAT,
        time=utc_now(),
        verdict=_verdict(work, reach),
        level=reach.level,
        basis=reach.basis,
        is_named=work.request.is_named,
        live=len(selection.ids),
        simulated=bool(selection.ids) and work.rebuilt is not None,
        forgotten_before=selection.already_forgotten,
        not_found=selection.unknown,
        rows=0 if work.rebuilt is None else len(work.rebuilt),
        canonical_digest=digests[0],
        rebuilt_digest=digests[1],
        memory_digest=work.subject.digest,
        weights_digest=work.digest,
        views=tuple(work.compared.views),
        kept=tuple(work.compared.kept),
        queries=work.compared.queries,
        images=work.compared.images,
        largest_difference=work.compared.largest,
        sources=tuple(f"{s.name} ({s.basis})" for s in sources),
        first_difference=work.difference,
        not_verified=(*map(_learnt, reach.reasons), *work.not_verified),
        seconds=time.perf_counter() - start,
    )


def _verdict(work: _Work, reach: Reach) -> Verdict:
    if work.difference is not None:
        return Verdict.FAILED
    if work.request.selection.ids and work.rebuilt is None:
        return Verdict.STILL_THERE
    if reach.level is None:
        return Verdict.NOTHING_FOUND
    return Verdict(f"{reach.level}_verified")


def _learnt(reason: str) -> str:
    return f"{reason}. It is measured only by retraining without them or by membership attacks."
