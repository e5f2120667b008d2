"""Check from the stored embeddings that a model is what it would be without some rows."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch
from torch import Tensor

from erasable.errors import ArgumentError
from erasable.memory import (
    CONTENT,
    Difference,
    Memory,
    Record,
    Selection,
    canonical_order,
    check_grid,
    check_rows,
    compare_memories,
    copy_with_kept,
)
from erasable.models._audit_disk import compare_saved, describe_copies
from erasable.models._audit_report import FORMAT, Audit, Verdict
from erasable.models._audit_request import Reach, Request, reach_of, resolve_request
from erasable.models._audit_views import Compared, Views, compare_kept, laid_out
from erasable.models._canonical import canonical_digest
from erasable.models._memory_classifier import MemoryClassifier
from erasable.models._provenance import ATTRIBUTE
from erasable.typing import Float32s

_PROBES = 64


def audit(
    model: MemoryClassifier,
    *,
    ids: Any = None,
    groups: Any = None,
    classes: Any = None,
    queries: Any = None,
    missing_ok: bool = False,
    on_step: Callable[[str], None] | None = None,
) -> Audit:
    """Check that a model is, or would be, what it is without some rows; it is not changed.

    Rows that are named and live are forgotten in a copy of the memory, as `forget` does it. Then a
    memory is built anew from the stored embeddings of the other rows, in another order, as if the
    named rows had never been there, and both are compared: canonical state byte for byte, digest,
    everything that is kept of rows, and the answers of every view bit for bit. Rows that were
    forgotten before need not be named: without names, the model as it stands is compared with one
    built anew. The rows of its saved copies are compared, too.

    It takes time and memory in proportion to the rows and their size; see the page on audits.

    Args:
        model: A fitted classifier with a memory.
        ids: Ids of rows.
        groups: Groups; all their rows.
        classes: Labels; all their rows.
        queries: Inputs to ask both; embeddings of stored rows if not given, among them those of the
            named ones.
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
        exact: verified
    """
    if not isinstance(model, MemoryClassifier):
        raise ArgumentError(f"Expected a classifier with a memory, but got {type(model).__name__}.")
    start = time.perf_counter()
    batches = None
    if queries is not None:
        batches = list(model._embeddings(model._check_inputs(queries, reset=False)))
    with model.memory.live.lock.changing():  # the request and the copy are of one state
        request = resolve_request(
            model.memory, ids=ids, groups=groups, classes=classes, missing_ok=missing_ok
        )
        digest = model.weights_digest
        reach = reach_of(model, request, digest)
        work = _Work(model, request, digest, on_step or (lambda _: None))
    work.run(batches)
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
        self, model: MemoryClassifier, request: Request, digest: str, on_step: Callable[[str], None]
    ) -> None:
        on_step("copying the memory")
        self.model = model
        self.request = request
        self.digest = digest
        self.subject = copy_with_kept(model.memory)
        self.rebuilt: Memory | None = None
        self.compared = Compared()
        self.queries = 0
        self.difference: Difference | None = None
        self.not_verified: list[str] = []
        self._on_step = on_step

    def run(self, batches: list[Tensor] | None) -> None:
        """Compare part after part, the answers by embedded queries or else by stored rows."""
        parts = (self._table, lambda: self._state(batches), self._weights, self._disk)
        for compare in parts:
            self.difference = compare()
            if self.difference is not None:
                return
        self.not_verified += _same_inputs(self.subject)
        self.not_verified += describe_copies(self.model, self.request.forgotten_ids)

    def _table(self) -> Difference | None:
        return check_rows(self.subject.live) or check_grid(self.subject.live)

    def _state(self, batches: list[Tensor] | None) -> Difference | None:
        subject, selection = self.subject, self.request.selection
        views = Views(self.model, batches or [_probes(subject, selection)])
        order = _others(subject, selection)
        records, embeddings = [subject.record(p) for p in order], subject.table.embeddings[order]
        if selection.ids:
            self._on_step("forgetting in the copy")
            views.warm(subject)
            subject.drop(selection)
        self._on_step("building anew")
        self.rebuilt = _built_anew(subject, records, embeddings)
        found = compare_memories(subject, self.rebuilt)
        if found is not None or not len(subject):
            return found
        return self._derived(views, self.rebuilt)

    def _derived(self, views: Views, rebuilt: Memory) -> Difference | None:
        ids = [info.id for info in self.subject.table.infos]
        anew = laid_out(rebuilt.live, rebuilt.table.positions(ids))
        self._on_step("comparing what is kept of rows")
        found = compare_kept(self.subject.live, anew, self.compared)
        self.not_verified += [
            f"what is kept as {name!r}: it was compared by answers only."
            for name in self.compared.not_compared
        ]
        if found is not None:
            return found
        self.queries = sum(map(len, views.batches))
        return views.compare(self.subject.live, anew, self.compared, self._on_step)

    def _weights(self) -> Difference | None:
        found = getattr(self.model.network_, ATTRIBUTE, None)
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


def _others(memory: Memory, selection: Selection) -> list[int]:
    """Return the positions of the rows that are not selected, in an order of their own."""
    gone = set(selection.ids)
    order = [p for p in canonical_order(memory.live) if memory.table.infos[p].id not in gone]
    shuffled: list[int] = np.random.default_rng(0).permutation(np.array(order, np.int64)).tolist()
    return shuffled


def _built_anew(memory: Memory, records: list[Record], embeddings: Float32s) -> Memory:
    """Return a new memory like another, with rows as they are stored and nothing else."""
    anew = Memory(memory.dim, grid=memory.grid)
    anew.add(
        embeddings,
        [record.label for record in records],
        ids=[record.id for record in records],
        groups=[record.groups for record in records],
        contents=[record.content for record in records],
    )
    return anew


def _probes(memory: Memory, selection: Selection) -> Tensor:
    """Return stored embeddings to ask with, those of named rows first, (≤ 64, dim)."""
    order = canonical_order(memory.live)
    gone = set(selection.ids)
    named = [place for place in order if memory.table.infos[place].id in gone]
    others = [place for place in order if memory.table.infos[place].id not in gone]
    chosen = _spread(named, _PROBES // 2)
    chosen += _spread(others, _PROBES - len(chosen))
    return torch.from_numpy(memory.table.embeddings[chosen])


def _spread(places: list[int], count: int) -> list[int]:
    if len(places) <= count:
        return places
    return [places[i] for i in np.linspace(0, len(places) - 1, count).astype(int).tolist()]


def _same_inputs(memory: Memory) -> list[str]:
    """Say whether rows are left whose input is that of a forgotten one."""
    marks = memory.tombstones.marks
    if not len(marks):
        return []
    contents = [info.content for info in memory.table.infos]
    count = sum(c is not None and marks.has(CONTENT, c) for c in contents)
    if not count:
        return []
    return [
        f"{count} rows that stay: they have the very input of a forgotten row, under other ids."
    ]


def _report(work: _Work, reach: Reach, start: float) -> Audit:
    request, model = work.request, work.model
    is_failed = work.difference is not None
    digests: list[str | None] = [None, None]
    if work.rebuilt is not None:
        memories = (work.subject, work.rebuilt)
        digests = [canonical_digest(model, memory, work.digest) for memory in memories]
    return Audit(
        format=FORMAT,
        time=datetime.now(UTC).isoformat(timespec="milliseconds"),
        verdict=Verdict.FAILED if is_failed else Verdict(f"{reach.level}_verified"),
        level=reach.level,
        basis=reach.basis,
        forgotten=len(request.selection.ids),
        forgotten_before=request.forgotten_before,
        not_found=request.not_found,
        rows=0 if work.rebuilt is None else len(work.rebuilt),
        canonical_digest=digests[0],
        rebuilt_digest=digests[1],
        memory_digest=work.subject.digest,
        weights_digest=work.digest,
        views=tuple(work.compared.views),
        kept=tuple(work.compared.kept),
        queries=work.queries,
        largest_difference=work.compared.largest,
        sources=reach.sources,
        first_difference=work.difference,
        not_verified=(*reach.not_verified, *work.not_verified),
        seconds=time.perf_counter() - start,
    )
