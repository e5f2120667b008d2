"""From inputs to embeddings: computed, or read from where they were kept."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from erasable.encoders import ModuleEncoder
from erasable.memory import forms_of
from erasable.models._copies import clear_caches
from erasable.models._networks import SPMNetwork, evaluate
from erasable.models._views import viewed
from erasable.store import EmbeddingCache
from erasable.training import Inputs
from erasable.typing import Ints, RowId
from erasable.weights import weights_digest

if TYPE_CHECKING:
    from erasable.models._memory_classifier import MemoryClassifier


def embeddings(network: SPMNetwork, inputs: Inputs | Tensor) -> Iterator[Tensor]:
    """Yield normalised embeddings of inputs, batch by batch."""
    return evaluate(network.embedder, inputs, is_precise=network.encoder.is_precise)


def query_embeddings(network: SPMNetwork, inputs: Inputs | Tensor, views: str) -> Iterator[Tensor]:
    """Yield normalised embeddings of queries, batch by batch: the mean over their views."""
    embedder = viewed(network.embedder, views)
    return evaluate(embedder, inputs, is_precise=network.encoder.is_precise)


def cached_embeddings(
    network: SPMNetwork, inputs: Inputs, ids: Sequence[RowId], folder: Path, *, verbose: bool
) -> npt.NDArray[Any]:
    """Return normalised embeddings of rows, (rows, dim); the encoder runs once per row.

    What the encoder returns is kept in ``folder``; it is normalised when it is read.

    Args:
        network: The network; its encoder is not trained any more.
        inputs: Inputs of the rows.
        ids: Their ids.
        folder: Where embeddings are kept.
        verbose: Show a progress bar.
    """
    encoder = network.encoder

    def compute(places: Ints) -> npt.NDArray[Any]:
        batches = evaluate(encoder, inputs.take(places), is_precise=encoder.is_precise)
        return np.concatenate([batch.numpy() for batch in batches])

    with _Display(enabled=verbose) as display:
        raw = EmbeddingCache(folder).encode(
            _identity(network, inputs.shape[1:]),
            [forms_of(row_id)[0] for row_id in ids],
            inputs.digests,
            compute,
            on_progress=display.show,
        )
    with torch.no_grad():
        normalised: npt.NDArray[Any] = network.norm(torch.from_numpy(raw)).numpy()
    return normalised


def embed_unforgotten(
    model: "MemoryClassifier", inputs: Inputs, ids: Sequence[RowId] | None
) -> npt.NDArray[Any]:
    """Return embeddings of inputs; rows that were forgotten are not kept in a cache again.

    Args:
        model: The model whose encoder, cache and tombstones they are.
        inputs: Inputs, (n, …).
        ids: Their ids, if they may be kept.
    """
    tombstones = model.memory.tombstones
    if ids is None or model.embedding_cache is None or tombstones.marks.missing_keys:
        return model._embed(inputs)  # without the keys nobody can tell what was forgotten
    rows = list(zip(ids, inputs.contents, strict=True))
    is_gone = _forgotten(model, rows)
    try:
        return _embed_apart(model, inputs, ids, is_gone)
    finally:  # another thread may have forgotten some meanwhile
        late = np.flatnonzero(_forgotten(model, rows) & ~is_gone).tolist()
        if late:
            clear_caches(model, [ids[place] for place in late])


def _embed_apart(
    model: "MemoryClassifier",
    inputs: Inputs,
    ids: Sequence[RowId],
    is_gone: npt.NDArray[np.bool_],
) -> npt.NDArray[Any]:
    """Return embeddings of inputs; those of rows that are gone are not kept."""
    kept, gone = np.flatnonzero(~is_gone), np.flatnonzero(is_gone)
    if not len(gone):
        return model._embed(inputs, ids=ids)
    found = np.empty((len(inputs), model.memory.dim), np.float32)
    found[gone] = model._embed(inputs.take(gone))
    if len(kept):
        found[kept] = model._embed(inputs.take(kept), ids=[ids[i] for i in kept.tolist()])
    return found


def _forgotten(model: "MemoryClassifier", rows: list[tuple[RowId, bytes]]) -> npt.NDArray[np.bool_]:
    """Tell of each row (id, content) whether it was forgotten."""
    with model.memory.live.lock.reading():
        return np.array([model.memory.tombstones.knows(*row) for row in rows], bool)


def _identity(network: SPMNetwork, input_shape: tuple[int, ...]) -> dict[str, Any]:
    """Return what embeddings depend on, besides the inputs."""
    encoder = network.encoder
    return {
        "encoder": encoder.name,
        "options": encoder.options(),
        "structure": repr(encoder) if isinstance(encoder, ModuleEncoder) else None,
        "input_shape": list(input_shape),
        "is_precise": encoder.is_precise,
        "weights": weights_digest(encoder),
    }


class _Display(Progress):
    """A progress bar with rows per second and time left, on standard error."""

    def __init__(self, *, enabled: bool) -> None:
        super().__init__(
            TextColumn("encoding"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} rows  {task.fields[rate]}"),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not enabled,
            speed_estimate_period=120,
        )

    def show(self, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` rows have been encoded."""
        if not self.tasks:
            self.add_task("", total=total, completed=done, rate="")
            return
        self.update(self.tasks[0].id, completed=done)
        speed = self.tasks[0].speed
        self.update(self.tasks[0].id, rate="" if speed is None else f"{speed:.0f}/s")
