"""Margins of many shadow models, in chunks on disk: what `u_lira` and `klom` are taken over."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.bench._chunks import Chunk, ChunkFolder
from erasable.bench._machine import machine
from erasable.bench._shadow_sets import WORLDS, Margins, ShadowMaker
from erasable.errors import Problems


@dataclass(frozen=True)
class ShadowRecord:
    """How the margins came about.

    Attributes:
        level: Level of forgetting.
        seed: Seed of every draw.
        shadows: Models per world.
        rows: Training rows to draw from.
        rows_per_model: Rows that an oracle holds, and an unlearned model once it forgot.
        forget: Rows of the forget set.
        retain: Watched rows.
        validation: Validation rows.
        equal_states: How many unlearned models have, to the last bit, the digest, counts and sums
            of a model built without the forget set.
        checked: How many of them were also built by the library itself, and their whole state
            compared byte for byte.
        seconds: Time it took, over all runs.
        machine: What it ran on.
        identity: What was built from what.
    """

    level: str
    seed: int
    shadows: int
    rows: int
    rows_per_model: int
    forget: int
    retain: int
    validation: int
    equal_states: int
    checked: int
    seconds: float
    machine: str
    identity: dict[str, Any]


@dataclass(frozen=True, eq=False)
class ShadowMargins:
    """Margins of shadow models in every world.

    Attributes:
        before: Models that hold the forget set.
        unlearned: The same models once they forgot it.
        oracle: Models built from other draws of rows, without the forget set.
        second_oracle: The same once more, for the floor.
        record: How they came about.
    """

    before: Margins
    unlearned: Margins
    oracle: Margins
    second_oracle: Margins
    record: ShadowRecord


@dataclass(frozen=True)
class Progress:
    """How far a run is: shadows done of all, and how long the rest may take, if known."""

    done: int
    total: int
    seconds_left: float | None


def shadow_margins(
    maker: ShadowMaker,
    folder: Path | str,
    *,
    shadows: int = 1000,
    seed: int = 0,
    chunk: int = 50,
    progress: Callable[[Progress], None] = lambda _: None,
) -> ShadowMargins:
    """Build shadow models and record their margins; a run that was killed goes on where it was.

    Each of ``shadows`` models holds its own random half of the rows and the forget set, then
    forgets it. As many oracles, twice over, are built from halves of their own. More shadows later
    go on from those there are.

    Args:
        maker: What builds models and makes them forget.
        folder: Where chunks of results are kept, one file each.
        shadows: Models per world.
        seed: Seed of the draws.
        chunk: Models per file.
        progress: Told after each chunk.

    Raises:
        ArgumentError: If an argument is out of range.
        StateError: If the folder holds results of something else.
        StoreError: If a file in the folder is damaged.
    """
    problems = Problems("shadow_margins()")
    for name, value, least in (("shadows", shadows, 1), ("seed", seed, 0), ("chunk", chunk, 1)):
        if type(value) is not int or value < least:
            problems.note(f"Expected {name} to be an int of {least} or more, but got {value!r}.")
    problems.raise_if_any()
    identity = {"seed": seed, "chunk": chunk, "level": maker.level, **maker.identity()}
    kept = ChunkFolder(Path(folder), json.loads(json.dumps(identity)))
    begun, new = time.perf_counter(), 0
    for first in range(0, shadows, chunk):
        size = min(chunk, shadows - first)
        if not kept.has(first, size):
            start = time.perf_counter()
            arrays = _run(maker, range(first, first + size), seed)
            kept.write(Chunk(first, arrays, time.perf_counter() - start, machine()))
            new += size
        left = shadows - first - size
        pace = (time.perf_counter() - begun) / new if new else None
        progress(Progress(first + size, shadows, None if pace is None else pace * left))
    chunks = [kept.read(first) for first in range(0, shadows, chunk)]
    return _collected(maker, chunks, shadows, identity)


def _run(maker: ShadowMaker, indices: range, seed: int) -> dict[str, npt.NDArray[Any]]:
    draws = {
        world: np.stack([maker.sets.draw(world, index, seed=seed) for index in indices])
        for world in WORLDS
    }
    unlearned = maker.unlearn(draws["unlearned"])
    found = {"before": unlearned.before, "unlearned": unlearned.after}
    found |= {world: maker.build(draws[world]) for world in WORLDS[1:]}
    arrays: dict[str, npt.NDArray[Any]] = {
        "is_equal": unlearned.is_equal,
        "is_checked": unlearned.is_checked,
    }
    for name, part in found.items():
        arrays |= {f"{name}.{field.name}": getattr(part, field.name) for field in fields(part)}
    return arrays


def _collected(
    maker: ShadowMaker, chunks: list[Chunk], shadows: int, identity: dict[str, Any]
) -> ShadowMargins:
    arrays = {
        name: np.concatenate([chunk.arrays[name] for chunk in chunks])[:shadows]
        for name in chunks[0].arrays
    }
    worlds = {
        name: Margins(**{field.name: arrays[f"{name}.{field.name}"] for field in fields(Margins)})
        for name in ("before", *WORLDS)
    }
    sets = maker.sets
    record = ShadowRecord(
        level=maker.level,
        seed=identity["seed"],
        shadows=shadows,
        rows=len(sets.train),
        rows_per_model=int(sets.is_watched.sum()) + len(sets.others) // 2,
        forget=int(sets.is_forgotten.sum()),
        retain=int(sets.is_watched.sum()),
        validation=len(sets.validation),
        equal_states=int(arrays["is_equal"].sum()),
        checked=int(arrays["is_checked"].sum()),
        seconds=sum(chunk.seconds for chunk in chunks),
        machine="; ".join(sorted({chunk.machine for chunk in chunks})),
        identity=identity,
    )
    return ShadowMargins(**worlds, record=record)
