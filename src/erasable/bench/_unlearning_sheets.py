"""Tables of the unlearning benchmark, made of finished cells alone."""

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from erasable.bench._grid import Found
from erasable.bench._paired import difference
from erasable.bench._paper import PaperRow
from erasable.bench._runs import Run
from erasable.bench._sheet import Entry, Figure, Sheet
from erasable.metrics import ATTACKS

TITLES = {
    "retrain": "Retrain (oracle)",
    "mute": "Mute",
    "ga": "GA",
    "ft": "FT",
    "iu": "IU",
    "be": "BE",
    "bs": "BS",
    "l1_sparse": "l1-sparse",
    "salun": "SalUn",
    "munba": "MUNBa",
    "deletion": "Deletion",
}
KIND_TITLES = {
    "parametric": "Parametric",
    "knn": "KNN",
    "spm": "SPM",
    "spm_neighbours": "SPM by neighbours",
    "spm_gaussian": "SPM by gaussian",
    "sisa": "SISA",
    "gnn": "SPM with graph",
}
_HEADER = [
    "model and method",
    "PG_H %",
    "KL(unlearned, oracle)",
    "KL(oracle, unlearned)",
    "ΔUA (UA) %",
    "ΔRA (RA) %",
    "ΔTA (TA) %",
    "attack AUC (confidence)",
    "seconds",
]
_PAPER_HEADER = ["paper: PG_H %", "paper: PG_S", "paper: UA / RA / TA", "paper: seconds"]
_ATTACK = "confidence"

MUTED = ("parametric", "mute")
"""The control of tables of forgotten classes."""

_LIKE_FLOOR = 1.1
"""Gaps up to so many floors are taken for what two oracles differ by."""


def unlearning_sheet(
    title: str, found: Found, paper: dict[tuple[str, str], PaperRow] | None = None
) -> Sheet:
    """Return the table of one group of scenarios.

    Args:
        title: Its title.
        found: What was measured.
        paper: The paper's figures by (kind, method), to stand beside.
    """
    rows: list[list[Entry]] = []
    for kind in found.oracles:
        floor = _floors(found, kind)
        rows.append(_oracle_row(found, kind))
        rows += [_row(name, runs, floor) for name, runs in _lines(found, kind)]
    header = list(_HEADER)
    if paper:
        header += _PAPER_HEADER
        keys = _keys(found)
        rows = [[*row, *_facing(paper.get(key))] for row, key in zip(rows, keys, strict=True)]
    notes = [*_headline(found), *_side_by_side(found), *_nothing_done(found), *_vacuous(found)]
    notes += [*_forgotten(found), *_failures(found)]
    return Sheet(title, header, rows, notes)


def detail_sheets(title: str, found: Found) -> list[Sheet]:
    """Return the tables behind a group's main one.

    Where the gap lives (for forgotten classes), what membership attacks find, and what a reader may
    want to check: retained rows that may not read themselves, time with re-encoding, drift.

    Args:
        title: Title of the main table.
        found: What was measured.
    """
    sheets = [_attack_sheet(title, found), _check_sheet(title, found)]
    pairs = [pair for kind in found.floors for pair in found.pairs(kind)]
    if all("test_remaining" in pair for pair in pairs):
        sheets.insert(0, _location_sheet(title, found))
    return sheets


def _location_sheet(title: str, found: Found) -> Sheet:
    rows: list[list[Entry]] = []
    parts = ("test_remaining", "test_forgotten")
    metrics = (
        ("prediction_gap", 100, 2),
        ("kl_unlearned_oracle", 1, 3),
        ("kl_oracle_unlearned", 1, 3),
    )
    for kind in found.oracles:
        pairs = found.pairs(kind)
        floors = {
            (part, metric): statistics.fmean(gap(p[part], metric) for p in pairs)
            for part in parts
            for metric, *_ in metrics
        }
        line: list[Entry] = [f"{KIND_TITLES[kind]}: {TITLES['retrain']}, floor"]
        line += [
            Figure([gap(p[part], metric) for p in pairs], None, scale, digits)
            for metric, scale, digits in metrics
            for part in parts
        ]
        rows.append(line)
        for name, runs in _lines(found, kind):
            compared = [run.result["compare"] for run in _scored(runs)]
            entries: list[Entry] = [name]
            for metric, scale, digits in metrics:
                for part in parts:
                    values = [gap(c[part], metric) for c in compared]
                    entries.append(Figure(values, floors[part, metric], scale, digits))
            rows.append(entries)
    header = ["model and method"]
    header += [
        f"{name}, {of} classes"
        for name in ("PG_H %", "KL(unlearned, oracle)", "KL(oracle, unlearned)")
        for of in ("remaining", "forgotten")
    ]
    note = (
        "Test images of classes that remain and of those that were forgotten, apart. Deletion from "
        "a memory leaves the features as they were (of SPM also the odds between the other "
        "classes); an oracle has learnt others. On images of a forgotten class no answer is "
        "right, and oracles of different seeds differ there themselves: that is the floor."
    )
    return Sheet(f"{title}: where the gap lives", header, rows, [note])


def _attack_sheet(title: str, found: Found) -> Sheet:
    rows: list[list[Entry]] = []
    for kind in found.oracles:
        own = [run.result["kinds"][kind]["attacks"] for run in found.oracles[kind]]
        rows.append([f"{KIND_TITLES[kind]}: {TITLES['retrain']}", *_attacked(own)])
        rows += [
            [name, *_attacked([run.result["attacks"] for run in _scored(runs)])]
            for name, runs in _lines(found, kind)
        ]
    header = ["model and method"]
    header += [
        f"{attack.replace('_', ' ')}: {what}" for attack in ATTACKS for what in ("AUC", "TPR %")
    ]
    note = (
        "Forgotten rows against test rows (of the same classes if classes are forgotten): AUC "
        "above 0.5 means that forgotten rows look more like members; TPR at 1 % false positives. "
        "A good method has the oracle's value, not 0.5. A row of a memory may not read itself "
        "here, except with a graph set encoder."
    )
    return Sheet(f"{title}: membership attacks", header, rows, [note])


def _attacked(found: list[dict[str, dict[str, float]]]) -> list[Entry]:
    entries: list[Entry] = []
    for attack in ATTACKS:
        entries.append(Figure([f[attack]["auc"] for f in found], digits=3))
        rates = [f[attack]["tpr"] for f in found]
        entries.append(Figure([r for r in rates if r is not None], scale=100, digits=1))
    return entries


def _check_sheet(title: str, found: Found) -> Sheet:
    rows: list[list[Entry]] = []
    for kind in found.oracles:
        for name, runs in _lines(found, kind):
            results = [run.result for run in _scored(runs)]
            values = [result["compare"]["values"] for result in results]
            left_out = [v["ra_left_out"] for v in values if "ra_left_out" in v]
            deltas = [result["compare"]["deltas"] for result in results]
            apart = [d["ra_left_out"] for d in deltas if "ra_left_out" in d]
            seconds = [r["seconds"] for r in results if "seconds" in r]
            again = [r["seconds_reencoding"] for r in results if "seconds" in r]
            drift = [
                r["figures"]["batch_norm_drift"]
                for r in results
                if "batch_norm_drift" in r.get("figures", {})
            ]
            rows.append(
                [
                    name,
                    Figure([v["ra"] for v in values], scale=100),
                    Figure(apart, scale=100, beside=left_out),
                    Figure(seconds, digits=3),
                    Figure(again, digits=3),
                    Figure(drift, digits=3),
                ]
            )
    header = [
        "model and method",
        "RA %",
        "ΔRA (RA) %, own row left out",
        "seconds",
        "seconds with re-encoding",
        "drift of batch norm",
    ]
    note = (
        "The paper lets a retained row read itself; left out, it may not. Seconds are those of the "
        "edit; with re-encoding, as if embeddings of the retained rows had not been kept. Drift is "
        "how far running means moved, in standard deviations."
    )
    return Sheet(f"{title}: checks", header, rows, [note])


def gap(gaps: dict[str, float | None], metric: str) -> float:
    """Return a gap; one of ∞ is kept as None."""
    value = gaps[metric]
    return math.inf if value is None else value


def _lines(found: Found, kind: str) -> list[tuple[str, list[Run]]]:
    """Return the lines of a kind of model below its oracle's: name and runs."""
    lines = [(f"{KIND_TITLES[kind]}: untouched", found.untouched[kind])]
    for (own, method), runs in found.cells.items():
        if own == kind:
            name = f"{KIND_TITLES[kind]}: {TITLES.get(method, method)}"
            failed = len(runs) - len(_scored(runs))
            some = f" ({failed} of {len(runs)} diverged)" if 0 < failed < len(runs) else ""
            lines.append((name + some, runs))
    return lines


def _scored(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if "failed" not in run.result]


def _forgotten(found: Found) -> list[str]:
    """Name the scenarios that a table averages."""
    runs = [run for runs in found.cells.values() for run in runs]
    rules = list(dict.fromkeys(run.settings["rule"] for run in runs))
    return [f"Forgotten, one scenario each: {'; '.join(rules)}."] if rules else []


def _vacuous(found: Found) -> list[str]:
    """Say how often the paper's right-hand bound says nothing."""
    claims = [
        run.result["compare"]["claim"] for runs in found.cells.values() for run in _scored(runs)
    ]
    if not claims:
        return []
    bounds = [claim["bound"] for claim in claims]
    vacuous = sum(bound is None or bound >= 1 for bound in bounds)
    finite = [bound for bound in bounds if bound is not None]
    smallest = f"; the smallest bound is {min(finite):,.1f}" if finite else ""
    margin = max(claim["margin"] for claim in claims)
    return [
        f"The bound √2/γ_min · √KL on PG_H is vacuous (1 or more) in {vacuous} of {len(bounds)} "
        f"cells{smallest}: oracles have near ties, γ_min is at most {margin:.1g} here."
    ]


def _keys(found: Found) -> list[tuple[str, str]]:
    keys = []
    for kind in found.oracles:
        own = [method for k, method in found.cells if k == kind]
        keys += [(kind, method) for method in ("retrain", "untouched", *own)]
    return keys


def _row(name: str, runs: Sequence[Run], floor: dict[str, float]) -> list[Entry]:
    results = [run.result for run in runs if "failed" not in run.result]
    if not results:
        reason = str(runs[0].result["failed"])
        return [name, reason, *[""] * (len(_HEADER) - 2)]
    compared = [result["compare"] for result in results]
    entries: list[Entry] = [name]
    for metric, scale, digits in (
        ("prediction_gap", 100, 2),
        ("kl_unlearned_oracle", 1, 3),
        ("kl_oracle_unlearned", 1, 3),
    ):
        values = [gap(c["test"], metric) for c in compared]
        entries.append(Figure(values, floor.get(metric), scale, digits))
    for metric in ("ua", "ra", "ta"):
        values = [c["deltas"][metric] for c in compared]
        beside = [c["values"][metric] for c in compared]
        entries.append(Figure(values, floor.get(metric), 100, 2, beside))
    entries.append(_attacks(results))
    seconds = [result["seconds"] for result in results if "seconds" in result]
    entries.append(Figure(seconds, digits=3) if seconds else "")
    return entries


def _oracle_row(found: Found, kind: str) -> list[Entry]:
    """Return the oracle's line: gaps between oracles of different seeds, which are the floor."""
    pairs, oracles = found.pairs(kind), found.oracles[kind]
    own = [run.result["kinds"][kind] for run in oracles]
    entries: list[Entry] = [f"{KIND_TITLES[kind]}: {TITLES['retrain']}, floor"]
    for metric, scale, digits in (
        ("prediction_gap", 100, 2),
        ("kl_unlearned_oracle", 1, 3),
        ("kl_oracle_unlearned", 1, 3),
    ):
        entries.append(Figure([gap(p["test"], metric) for p in pairs], None, scale, digits))
    for metric in ("ua", "ra", "ta"):
        values = [p["deltas"][metric] for p in pairs]
        entries.append(Figure(values, None, 100, 2, [o["values"][metric] for o in own]))
    entries.append(Figure([o["attacks"][_ATTACK]["auc"] for o in own], digits=3))
    entries.append(Figure([run.result["seconds"] for run in oracles], digits=1))
    return entries


def _attacks(results: Iterable[dict[str, Any]]) -> Figure:
    return Figure([result["attacks"][_ATTACK]["auc"] for result in results], digits=3)


def _floors(found: Found, kind: str) -> dict[str, float]:
    pairs = found.pairs(kind)
    gaps = {
        metric: statistics.fmean(gap(p["test"], metric) for p in pairs)
        for metric in pairs[0]["test"]
    }
    deltas = {
        metric: statistics.fmean(p["deltas"][metric] for p in pairs)
        for metric in ("ua", "ra", "ta")
    }
    return {**gaps, **deltas}


def best_edit(found: Found) -> tuple[str, str] | None:
    """Return the method that edits weights with the smallest PG_H, if there is any.

    Only one with a score in every cell can be the best; muting is a control, not a contestant.

    Args:
        found: What was measured.
    """
    most = max((len(runs) for runs in found.cells.values()), default=0)
    scores = {
        key: _mean_gap(runs)
        for key, runs in found.cells.items()
        if key[0] == "parametric" and key != MUTED and len(_scored(runs)) == most
    }
    return min(scores, key=lambda key: scores[key]) if scores else None


def _headline(found: Found) -> list[str]:
    """Compare deletion from an SPM's memory with the best method that edits weights."""
    best, own = best_edit(found), ("spm", "deletion")
    if best is None or own not in found.cells or not _scored(found.cells[own]):
        return []
    ratio = _seconds(found, best) / _seconds(found, own)
    speed = f"{ratio:,.0f} times faster" if ratio >= 1 else f"{1 / ratio:,.1f} times slower"
    control = f"; {_side_of(found, own, MUTED)} muting" if MUTED in found.cells else ""
    if _is_blind(found):
        return [
            f"SPM deletion: {speed} than the edit with the smallest PG_H "
            f"({TITLES.get(best[1], best[1])}). How near either is to its oracle PG_H cannot tell "
            "here, see below."
        ]
    return [
        f"SPM deletion: PG_H {_side_of(found, own, best)} the best method that edits weights "
        f"({TITLES.get(best[1], best[1])}), and {speed}{control}. Each is compared with oracles of "
        "its own kind."
    ]


def _side_by_side(found: Found) -> list[str]:
    """Compare deletions with the best edit and with muting, scenario by scenario."""
    others = [key for key in (best_edit(found), MUTED) if key is not None and key in found.cells]
    if not others or _is_blind(found):
        return []
    said, by = [], ""
    for own in [key for key in found.cells if key[1] == "deletion"]:
        words = []
        for other in others:
            one = difference(found, own, other)
            if one is not None and one.count > 1:
                by = "seed" if one.is_by_seed else "scenario"
                words.append(f"{TITLES.get(other[1], other[1])} {one.text()}")
        if words:
            said.append(f"{KIND_TITLES[own[0]]} deletion less {', less '.join(words)}")
    if not said:
        return []
    return [
        f"PG_H beyond the floor of its own kind, {by} by {by}, mean difference ± its standard "
        f"error: {'; '.join(said)}."
    ]


def _side_of(found: Found, own: tuple[str, str], other: tuple[str, str]) -> str:
    """Say how far the gap of one is below or above that of another."""
    theirs, mine = (_mean_gap(_scored(found.cells[key])) for key in (other, own))
    difference = 100 * (theirs - mine)
    return f"{abs(difference):.2f} points {'below' if difference >= 0 else 'above'}"


def _nothing_done(found: Found) -> list[str]:
    """Say how far models are from their oracles to which nothing was done, and who is farther."""
    gaps = {kind: _mean_gap(runs) for kind, runs in found.untouched.items()}
    if not gaps:
        return []
    floors = {kind: _floors(found, kind)["prediction_gap"] for kind in gaps}
    shown = "; ".join(
        f"{KIND_TITLES[kind]} {Figure([value], floors[kind], 100).text()}"
        for kind, value in gaps.items()
    )
    sides: dict[int, list[str]] = {1: [], -1: []}
    for (kind, method), runs in found.cells.items():
        side = _side(runs, found.untouched[kind])
        sides.get(side, []).append(f"{KIND_TITLES[kind]} {TITLES.get(method, method)}")
    note = f"Doing nothing has PG_H {shown}."
    if _is_blind(found):
        note += " So here PG_H cannot tell forgetting from doing nothing."
    for side, word in ((-1, "Nearer to"), (1, "Farther from")):
        if sides[side]:
            note += f" {word} the oracle than that in every cell: {', '.join(sides[side])}."
    return [note]


def _is_blind(found: Found) -> bool:
    """Return whether models to which nothing was done are as near to oracles as these are."""
    return all(
        _mean_gap(runs) <= _LIKE_FLOOR * _floors(found, kind)["prediction_gap"]
        for kind, runs in found.untouched.items()
    )


def _side(runs: Sequence[Run], untouched: Sequence[Run]) -> int:
    """Return 1 if all runs are farther from their oracles than untouched models, -1 if nearer.

    Cells are compared one by one: the same original, the same oracle. 0 if they disagree, or if
    one has no score.
    """
    bases = {_cell(run): _gap_of(run) for run in untouched}
    scored = _scored(runs)
    signs = {
        (_gap_of(run) > bases[_cell(run)]) - (_gap_of(run) < bases[_cell(run)]) for run in scored
    }
    return signs.pop() if len(signs) == 1 and len(scored) == len(runs) else 0


def _cell(run: Run) -> tuple[str, int]:
    return run.settings["rule"], run.settings["seed"]


def _gap_of(run: Run) -> float:
    return float(run.result["compare"]["test"]["prediction_gap"])


def _mean_gap(runs: Sequence[Run]) -> float:
    return statistics.fmean(map(_gap_of, runs))


def _seconds(found: Found, key: tuple[str, str]) -> float:
    runs = [run.result for run in found.cells[key] if "failed" not in run.result]
    return float(statistics.median(result["seconds"] for result in runs))


def _failures(found: Found) -> list[str]:
    return [f"Failed: {name}: {reason}" for name, reason in found.failures.items()]


def _facing(row: PaperRow | None) -> list[Entry]:
    if row is None:
        return [""] * len(_PAPER_HEADER)
    rates = f"{row.ua:.2f} / {row.ra:.2f} / {row.ta:.2f}"
    return [f"{row.pg_h:.2f}", f"{row.pg_s:.2f}", rates, row.time]
