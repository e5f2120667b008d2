"""Tables of the unlearning benchmark, made of finished cells alone."""

import html
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from erasable.bench._grid import Found
from erasable.bench._paper import PaperRow
from erasable.bench._runs import Run
from erasable.bench._sheet import FORMS, Entry, Figure, Sheet

TITLES = {
    "retrain": "Retrain (oracle)",
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
    "sisa": "SISA",
    "gnn": "SPM, graph",
}
_HEADER = [
    "model and method",
    "PG_H %",
    "KL(unlearned, oracle)",
    "KL(oracle, unlearned)",
    "ΔUA (UA) %",
    "ΔRA (RA) %",
    "ΔTA (TA) %",
    "attack AUC (oracle)",
    "seconds",
]
_PAPER_HEADER = ["paper: PG_H %", "paper: PG_S", "paper: UA / RA / TA"]
_ATTACK = "confidence"


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
        rows.append(_row(f"{KIND_TITLES[kind]}: untouched", found.untouched[kind], floor))
        rows += [
            _row(f"{KIND_TITLES[kind]}: {TITLES.get(method, method)}", runs, floor)
            for (own, method), runs in found.cells.items()
            if own == kind
        ]
    header = list(_HEADER)
    if paper:
        header += _PAPER_HEADER
        keys = _keys(found)
        rows = [[*row, *_facing(paper.get(key))] for row, key in zip(rows, keys, strict=True)]
    notes = [*_headline(found), *_failures(found)]
    return Sheet(title, header, rows, notes)


def _keys(found: Found) -> list[tuple[str, str]]:
    keys = []
    for kind in found.oracles:
        own = [method for k, method in found.cells if k == kind]
        keys += [(kind, method) for method in ("retrain", "untouched", *own)]
    return keys


def _row(name: str, runs: Sequence[Run], floor: dict[str, float]) -> list[Entry]:
    results = [run.result for run in runs if "failed" not in run.result]
    failed = len(runs) - len(results)
    if not results:
        reason = str(runs[0].result["failed"])
        return [name, reason, *[""] * (len(_HEADER) - 2)]
    compared = [result["compare"] for result in results]
    entries: list[Entry] = [name if not failed else f"{name} ({failed} of {len(runs)} diverged)"]
    for metric, scale, digits in (
        ("prediction_gap", 100, 2),
        ("kl_unlearned_oracle", 1, 3),
        ("kl_oracle_unlearned", 1, 3),
    ):
        values = [c["test"][metric] for c in compared]
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
    pairs, oracles = found.floors[kind], found.oracles[kind]
    own = [run.result["kinds"][kind] for run in oracles]
    entries: list[Entry] = [f"{KIND_TITLES[kind]}: {TITLES['retrain']}, floor"]
    for metric, scale, digits in (
        ("prediction_gap", 100, 2),
        ("kl_unlearned_oracle", 1, 3),
        ("kl_oracle_unlearned", 1, 3),
    ):
        entries.append(Figure([p["test"][metric] for p in pairs], None, scale, digits))
    for metric in ("ua", "ra", "ta"):
        values = [p["deltas"][metric] for p in pairs]
        entries.append(Figure(values, None, 100, 2, [o["values"][metric] for o in own]))
    entries.append(Figure([o["attacks"][_ATTACK]["auc"] for o in own], digits=3))
    entries.append(Figure([run.result["seconds"] for run in oracles], digits=1))
    return entries


def _attacks(results: Iterable[dict[str, Any]]) -> Figure:
    return Figure([result["attacks"][_ATTACK]["auc"] for result in results], digits=3)


def _floors(found: Found, kind: str) -> dict[str, float]:
    pairs = found.floors[kind]
    gaps = {
        metric: statistics.fmean(p["test"][metric] for p in pairs) for metric in pairs[0]["test"]
    }
    deltas = {
        metric: statistics.fmean(p["deltas"][metric] for p in pairs)
        for metric in ("ua", "ra", "ta")
    }
    return {**gaps, **deltas}


def _headline(found: Found) -> list[str]:
    """Compare deletion from an SPM's memory with the best method that edits weights."""
    scores = {
        key: statistics.fmean(
            r.result["compare"]["test"]["prediction_gap"] for r in runs if "failed" not in r.result
        )
        for key, runs in found.cells.items()
        if any("failed" not in r.result for r in runs)
    }
    edits = {key: value for key, value in scores.items() if key[0] == "parametric"}
    own = ("spm", "deletion")
    if own not in scores or not edits:
        return []
    best = min(edits, key=lambda key: edits[key])
    difference = 100 * (edits[best] - scores[own])
    word = "below" if difference >= 0 else "above"
    ratio = _seconds(found, best) / _seconds(found, own)
    return [
        f"SPM deletion: PG_H {abs(difference):.2f} points {word} the best method that edits "
        f"weights ({TITLES[best[1]]}), in 1/{ratio:,.0f} of its time. Each is compared with "
        "oracles of its own kind."
    ]


def _seconds(found: Found, key: tuple[str, str]) -> float:
    runs = [run.result for run in found.cells[key] if "failed" not in run.result]
    return float(statistics.median(result["seconds"] for result in runs))


def _failures(found: Found) -> list[str]:
    return [f"Failed: {name}: {reason}" for name, reason in found.failures.items()]


def _facing(row: PaperRow | None) -> list[Entry]:
    if row is None:
        return ["", "", ""]
    return [f"{row.pg_h:.2f}", f"{row.pg_s:.2f}", f"{row.ua:.2f} / {row.ra:.2f} / {row.ta:.2f}"]


def unlearning_page(
    form: str,
    sheets: Sequence[Sheet],
    found: dict[str, Found],
    searched: Sequence[dict[str, Any]],
    command: str,
) -> str:
    """Return tables as the text of one file, with where their figures come from.

    Args:
        form: ``md``, ``csv``, ``tex`` or ``html``.
        sheets: The tables.
        found: The runs behind each.
        searched: What tuning tried and chose.
        command: The command that made them.
    """
    runs = [run for group in found.values() for run in group.runs]
    data = runs[0].settings["data"]
    facts = [
        f"Command: {command}",
        f"Data: {data['name']}; digests of training and test rows "
        f"{data['train_contents'][:16]} and {data['test_contents'][:16]}",
        f"Seeds: {', '.join(str(s) for s in sorted({run.settings['seed'] for run in runs}))}",
        *(f"Machine: {name}" for name in dict.fromkeys(run.machine for run in runs)),
        f"Wall time: {sum(run.seconds for run in runs) / 60:.0f} minutes",
        *(_tuned(entry) for entry in searched),
    ]
    if form == "csv":
        header, *_ = sheets[0].csv().splitlines()
        lines = [line for sheet in sheets for line in sheet.csv().splitlines()[1:]]
        return "\n".join([header, *lines, ""])
    body = "\n\n".join(FORMS[form](sheet) for sheet in sheets)
    if form == "tex":
        return "\n".join([*(f"% {fact}" for fact in facts), body, ""])
    if form == "html":
        items = "".join(f"<li>{html.escape(fact)}</li>" for fact in facts)
        return f"<!doctype html><meta charset=utf-8><body>{body}<ul>{items}</ul></body>\n"
    shown = "\n".join(f"- {fact}" for fact in facts)
    return f"# Unlearning on {data['name']}\n\n{_LEVEL}\n\n{body}\n## How it was run\n\n{shown}\n"


_LEVEL = (
    "Level of forgetting: `memory` for KNN and SPM deletion (the weights were trained on all "
    "rows), `exact` for SISA, whose shards are trained again. Methods that edit weights have no "
    "level: how much they forget is what is measured. Gaps are to an oracle of the same kind; "
    "multiples are of the gap between two oracles of different seeds."
)


def _tuned(entry: dict[str, Any]) -> str:
    return (
        f"Tuned on {entry['rule']}, original of seed {entry['seed']}: {entry['method']} by "
        f"{len(entry['searched'])} settings, chosen {entry['chosen']}"
    )
