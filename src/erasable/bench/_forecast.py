"""How long a table will take, told before it starts."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from erasable.baselines import Method, SGDMethod
from erasable.bench._families import KINDS, READINGS
from erasable.bench._harness import BUDGETS, Cell, Harness
from erasable.bench._references import ORACLES
from erasable.bench._rules import stages

_ASKING = 0.5
"""What asking a model for every row costs, in passes of a training."""


def seconds_left(
    harness: Harness,
    cells: Iterable[Cell],
    floors: Iterable[tuple[str, str, list[int]]],
    *,
    sequences: Iterable[Cell] = (),
) -> float:
    """Estimate how long it takes to do what is not finished.

    The pace is measured on a few batches, unless there is nothing to do.

    Args:
        harness: Knows what is finished.
        cells: The cells of a table.
        floors: Kind of model, rule and seeds of each floor.
        sequences: Cells whose requests are done one after the other.
    """
    left: dict[str, float] = {}
    for cell in cells:
        if not harness.has_cell(cell):
            left |= _of_cell(harness, cell)
    for cell in sequences:
        if not harness.has_sequence(cell):
            for rule in stages(cell.rule):
                left |= _of_cell(harness, replace(cell, rule=rule))
    for kind, rule, seeds in floors:
        for pair in harness.pairs(rule, seeds):
            for rule_seed, seed in pair:
                left |= _of_oracle(harness, kind, rule, rule_seed, seed)
    return sum(left.values()) * harness.seconds_per_pass() if left else 0.0


def say_left(seconds: float, say: Callable[[str], None]) -> None:
    """Say how long it will take, unless there is nothing to do."""
    if seconds:
        say(f"About {duration(seconds)} in all; interrupted, the same command goes on.")


def duration(seconds: float) -> str:
    """Return a time as a person says it."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _of_cell(harness: Harness, cell: Cell) -> dict[str, float]:
    """Return passes over all rows, by what needs them; what cells share has the same name."""
    family = KINDS[cell.kind]
    left = _of_oracle(harness, cell.kind, cell.rule, cell.seed, cell.seed + ORACLES)
    if not harness.has_original(family, cell.seed):
        left[f"original {_trained(family)} {cell.seed}"] = float(harness.epochs)
    gone = float(harness.scenario(cell.rule, cell.seed).is_forgotten.mean())
    is_trained_again = cell.kind == "sisa"
    edit = (1 - gone) * harness.epochs if is_trained_again else _passes(harness, cell.method, gone)
    settings = sorted(cell.method.settings.items())
    name = f"{cell.kind} {cell.method.name} {settings} {cell.rule} {cell.seed}"
    return {**left, name: edit + _ASKING}


def _of_oracle(
    harness: Harness, kind: str, rule: str, rule_seed: int, seed: int
) -> dict[str, float]:
    family = KINDS[kind]
    if harness.has_oracle(family, rule, rule_seed, seed):
        return {}
    gone = float(harness.scenario(rule, rule_seed).is_forgotten.mean())
    name = f"{rule} {rule_seed} {seed}"
    return {
        f"oracle {_trained(family)} {name}": (1 - gone) * harness.epochs,
        f"answers {family} {name}": _ASKING,
    }


def _trained(family: str) -> str:
    """Return the family whose training a family's models come from."""
    return "spm" if family in READINGS else family


def _passes(harness: Harness, method: Method, gone: float) -> float:
    """Return how often an edit passes over the rows, as a multiple of all of them."""
    if not isinstance(method, SGDMethod):
        return 1.0 if method.grid() else 0.0  # what has nothing to tune reads no rows
    share = {"forget": gone, "retain": 1 - gone}
    read = sum(share[name] for name in method.reads)
    return read * BUDGETS[harness.scale].allowed(method.epochs, read)
