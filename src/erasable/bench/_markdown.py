"""The demo's result as a page of the documentation."""

from collections.abc import Iterator

from erasable.bench._demo import DemoResult, Line
from erasable.bench._table import HEADER, cells, times

_INTRODUCTION = """\
# The demo

`{command}`: {train} training and {test} test images of handwritten digits (8×8 pixels, from
scikit-learn). The data set does not say who wrote which digit; the subjects are *simulated*: each
row was given to one of 40 at random. An original model and its parametric twin are trained with
seed {seed}; for each scenario, oracles of both are retrained from fresh weights without the forget
set, with seeds {oracles}.

Test accuracy of the originals: semi-parametric {spm:.1%}, parametric twin {parametric:.1%}, random
features that were only remembered {exact:.1%}.

Cells: mean gap to the two oracles, [gap between the two oracles: the floor], (own value). PG_H, UA,
RA and TA in percent, KL in nats; u = unlearned, o = oracle. UA is the error rate on the forget set.
RA is taken with the own row in the memory, TA on test images of the remaining classes if a class is
forgotten. With two oracles, and one seed of the original, small differences to the floor are noise.
"""

_LEVELS = """\
## What stays in the weights

At level `memory` the rows no longer vote, but the weights were trained on them and still carry what
they learnt. On the random tenth the model errs on {ua:.1%} of the forgotten rows, models retrained
without them on {oracle_ua:.1%}. Compare each gap with the line of the twin, to which nothing was
done: where the twin's gap is as small, the gap says little about forgetting.

At level `exact` the weights never saw the rows, and nothing is left:
"""


def render_markdown(result: DemoResult) -> Iterator[str]:
    """Yield the lines of the page."""
    counts = result.counts
    yield _INTRODUCTION.format(
        command=f"erasable demo --seed {counts['seed']}",
        oracles=" and ".join(map(str, counts["oracle_seeds"])),
        **{name: counts[name] for name in ("train", "test", "seed")},
        **result.accuracies,
    )
    for scenario, rows in counts["forget"].items():
        yield f"## Forget {scenario}: {rows} rows\n"
        lines = [line for line in result.lines if line.scenario == scenario]
        yield from _table(HEADER, [cells(line) for line in lines])
        yield "".join(f"- {line.model}: {times(line)}\n" for line in lines)
    random = result.lines[3]
    yield _LEVELS.format(ua=random.mean("ua"), oracle_ua=random.mean("oracle_ua"))
    yield from _table(
        ("forget", "rows", "canonical state", "largest difference of a probability"),
        [
            [p.scenario, str(p.rows), _equal(p.states_equal), f"{p.largest_difference:.1e}"]
            for p in result.proofs
        ],
    )
    yield "(That difference is rounding: the same rows lie in another order in the two memories.)\n"
    yield "## The paper's Claim\n\nΔAcc ≤ PG_H ≤ (√2/γ)·√KL on the whole test set, first oracle:\n"
    yield from _table(
        ("forget", "model", "ΔAcc", "PG_H", "γ", "right-hand bound", ""),
        [_claim(line) for line in result.lines],
    )
    yield (
        "A bound above 1 says nothing about a share; with γ the oracle's smallest margin over "
        "hundreds of queries, that is the usual case.\n"
    )
    yield "## The toy\n"
    figures = result.teaser.figures()
    yield (
        "![Decision regions before, retrained and deleted](images/teaser.png)\n\n"
        f"Decisions differ from the oracle's on {figures['before_to_retrained']:.1%} of the plane "
        f"before forgetting, on {figures['deleted_to_retrained']:.1%} after; two oracles differ on "
        f"{figures['retrained_to_retrained']:.1%}.\n"
    )
    yield f"{result.machine}; {result.seconds:.0f} s in all."


def _table(header: tuple[str, ...], rows: list[list[str]]) -> Iterator[str]:
    yield "| " + " | ".join(name.replace("|", "‖") for name in header) + " |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def _claim(line: Line) -> list[str]:
    claim = line.claim
    word = "holds" if claim["left_holds"] and claim["right_holds"] else "VIOLATED"
    return [
        line.scenario,
        line.model,
        f"{claim['accuracy_gap']:.4f}",
        f"{claim['prediction_gap']:.4f}",
        f"{claim['margin']:.1e}",
        f"{claim['bound']:.3g}",
        word + (", says nothing" if claim["is_vacuous"] else ""),
    ]


def _equal(is_equal: bool) -> str:
    return "byte for byte equal" if is_equal else "DIFFERENT"
