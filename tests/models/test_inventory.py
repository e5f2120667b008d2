"""Everything that can be reached from a model is declared, and nothing of a forgotten row is there.

The law: state, history or cache (`erasable.models._inventory`). What is new in a model fails here
until somebody has said what it is, and what it reveals.
"""

import json
import pickle
import sqlite3
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from erasable import KNNClassifier, SPMClassifier, SPMGenerator
from erasable.memory import ProductCodes, content_parts, kept
from erasable.models._inventory import (
    CACHES,
    HISTORY,
    SAVED_HISTORY,
    SAVED_STATE,
    STATE,
    Part,
    part_of,
    saved_part_of,
)
from erasable.training import Training
from erasable.weights import weights_of
from models.generation_toys import quarters
from models.reachable import as_bytes, reachable

ROWS = 60
IDS = [f"subject-{row:03d}" for row in range(ROWS)]
LABELS = ["lonely-class" if row < 3 else f"class-{'ab'[row % 2]}" for row in range(ROWS)]
GROUPS = ["person-x" if row in (0, 1, 2, 10, 33) else "others" for row in range(ROWS)]
GONE = [i for i, group in zip(IDS, GROUPS, strict=True) if group == "person-x"]
X = np.random.default_rng(0).normal(size=(ROWS, 20)).astype(np.float32)
SPM = {"encoder_options": {"dim": 8, "hidden": [8]}, "random_state": 0, "batch_size": 16}
GENERATOR = {"channels": (8, 16), "layers": 1, "batch_size": 32, "random_state": 0}
GRAPH = {**SPM, "set_encoder": "graph", "training": Training(support_size=16)}

CLASSIFIERS = {
    **{
        reduction: lambda epochs, reduction=reduction: SPMClassifier(
            reduction=reduction, k=5, epochs=epochs, **SPM
        )
        for reduction in ("prototypes", "rows", "neighbours", "gaussian")
    },
    "graph": lambda epochs: SPMClassifier(epochs=epochs, **GRAPH),
    "knn": lambda epochs: KNNClassifier(k=3, epochs=epochs, **SPM),
}
GENERATORS = {
    "generator": {},
    "generator that is told classes": {"labels": "permuted"},
    "generator that follows": {"branch": "follow"},
}
KINDS = [*CLASSIFIERS, *GENERATORS]
MADE = [(kind, False) for kind in KINDS] + [(kind, True) for kind in (*CLASSIFIERS, "generator")]


def inputs(kind):
    return quarters(ROWS)[0] if kind in GENERATORS else X


def made(kind, rows, *, trained):
    """Return a model with some rows, trained on them or not, that has answered."""
    named = {"ids": [IDS[r] for r in rows], "groups": [GROUPS[r] for r in rows]}
    given = inputs(kind)[rows], [LABELS[r] for r in rows]
    if kind in GENERATORS:
        model = SPMGenerator(**GENERATOR, **GENERATORS[kind], steps=2 if trained else 0)
    else:
        model = CLASSIFIERS[kind](1 if trained else 0)
    (model.fit if trained else model.remember)(*given, **named)
    used(model, kind)
    return model


def used(model, kind):
    """Let a model answer, so that what it keeps is there."""
    if kind in GENERATORS:
        model.sample(["class-a"], num_inference_steps=2, generator=torch.Generator().manual_seed(0))
        return
    model.predict(X[:3])
    model.votes(X[:3])
    if kind == "knn":
        model.tune(X[20:40], LABELS[20:40])
    if kind == "gaussian":
        model.set_params(reduction="prototypes").predict(X[:3])
        model.set_params(reduction="gaussian")


def traces(model, ids):
    """Return what forgotten rows could be recognised by: names, embeddings, contents."""
    memory, found = model.memory, {}
    for row, record in zip(memory.get(ids), map(memory.record, memory.positions(ids)), strict=True):
        found[f"id {row.id}"] = str(row.id).encode()
        units = memory.grid.units(row.embedding)
        for name, values in (
            ("float32", row.embedding),
            ("float64", row.embedding.astype(np.float64)),
            ("int32", units.astype(np.int32)),
            ("int64", units.astype(np.int64)),
        ):
            found[f"embedding of {row.id} as {name}"] = values.tobytes()
        for part in content_parts(record.content):
            found[f"content of {row.id}"] = part
    return found | {"label": b"lonely-class", "group": b"person-x"}


def left_in(model, looked_for):
    """Return where any of the traces can be reached from a model."""
    leaves = ((path, as_bytes(found)) for path, found in reachable(model))
    return sorted(
        (name, path)
        for path, data in leaves
        for name, trace in looked_for.items()
        if data and trace in data
    )


# -- nothing of a forgotten row -------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "trained"), MADE)
def test_nothing_that_can_be_reached_holds_a_forgotten_row(kind, trained, tmp_path):
    model = made(kind, range(ROWS), trained=trained)
    model.save(tmp_path / "model")
    looked_for = traces(model, GONE)
    assert {name for name, _ in left_in(model, looked_for)} >= {
        name for name in looked_for if "as float64" not in name and "as int" not in name
    }
    model.forget(groups=["person-x"])
    assert left_in(model, looked_for) == []
    used(model, kind)
    assert left_in(model, looked_for) == []
    pickled = pickle.dumps(model)
    assert [name for name, trace in looked_for.items() if trace in pickled] == []
    model.save(tmp_path / "model")
    saved = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert [name for name, trace in looked_for.items() if trace in saved] == []


@pytest.mark.parametrize("fraction", [0.01, 0.5, 1.0])
def test_nothing_of_a_forgotten_row_is_left_among_codes(fraction):
    rng = np.random.default_rng(1)
    ids = [f"subject-{row:04d}" for row in range(1500)]
    model = SPMClassifier("identity", reduction="neighbours", search="pq")
    model.remember(rng.normal(size=(1500, 20)), np.arange(1500) % 3, ids=ids)
    assert model.memory.live.follower("codes", ProductCodes).index
    gone = ids[: int(fraction * 1500) - 1]
    looked_for = {k: v for k, v in traces(model, gone[:20]).items() if k not in ("label", "group")}
    model.forget(ids=gone)
    assert left_in(model, looked_for) == []
    model.memory.live.follower("codes", ProductCodes)  # its index is made anew if need be
    assert left_in(model, looked_for) == []


# -- everything is declared -----------------------------------------------------------------------


def declared(root):
    """Walk what is state, and return it as (field, value), with the fields nobody declared."""
    state, strangers, seen = [], set(), {}
    todo = [("", root)]
    while todo:
        field, found = todo.pop()
        if isinstance(found, (dict, list, tuple, set, frozenset)):
            values = [*found, *found.values()] if isinstance(found, dict) else found
            todo += [(field, value) for value in values]
        elif not hasattr(found, "__dict__") or isinstance(found, (torch.Tensor, type)):
            state.append((field, found))
        elif id(found) not in seen:
            seen[id(found)] = found
            for attribute, value in vars(found).items():
                part, name = part_of(found, attribute), f"{type(found).__name__}.{attribute}"
                if part is Part.STATE:
                    todo.append((name, value))
                elif part is None and type(found).__module__.startswith(("erasable.", "models.")):
                    strangers.add(name)
    return state, strangers


@pytest.mark.parametrize(("kind", "trained"), MADE)
def test_everything_that_can_be_reached_is_declared(kind, trained, tmp_path):
    model = made(kind, range(ROWS), trained=trained)
    assert declared(model)[1] == set(), "declare these fields in models/_inventory.py"
    model.save(tmp_path / "model")
    model.forget(groups=["person-x"])
    assert declared(model)[1] == set(), "declare these fields in models/_inventory.py"


def bare(field, found):
    """Return a value of the state without the arrangement that changes leave it in, or None."""
    if found is None or not isinstance(found, (np.ndarray, torch.Tensor, str, int, float, bytes)):
        return None  # places that were emptied, and what is no value
    if isinstance(found, np.ndarray):
        rows = found.reshape(len(found), -1) if found.ndim else found.reshape(1, 1)
        return field, found.dtype.str, tuple(sorted(row.tobytes() for row in rows if row.any()))
    if isinstance(found, torch.Tensor):
        return field, tuple(found.shape), found.detach().cpu().numpy().tobytes()
    return field, found


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_declared_state_is_that_of_a_model_without_the_rows(kind):
    model = made(kind, range(ROWS), trained=False)
    model.forget(groups=["person-x"])
    used(model, kind)
    never = made(kind, [r for r in range(ROWS) if IDS[r] not in GONE], trained=False)
    assert model.memory.digest == never.memory.digest
    ours, theirs = (Counter(bare(*value) for value in declared(one)[0]) for one in (model, never))
    del ours[None], theirs[None]
    assert ours == theirs


@pytest.mark.parametrize(("kind", "trained"), MADE)
def test_every_number_of_a_network_is_among_its_weights(kind, trained):
    model = made(kind, range(ROWS), trained=trained)
    model.forget(groups=["person-x"])
    used(model, kind)
    weights = {value.data_ptr() for value in weights_of(model.network_).values()}
    inside = [
        path
        for path, found in reachable(model.network_)
        if (isinstance(found, torch.Tensor) and found.data_ptr() not in weights)
        or isinstance(found, np.ndarray)
    ]
    assert inside == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_saved_model_is_declared(kind, tmp_path):
    model = made(kind, range(ROWS), trained=kind in CLASSIFIERS)
    model.save(tmp_path / "model")
    model.forget(groups=["person-x"])
    model.save(tmp_path / "model")
    names = set(saved_fields(tmp_path / "model"))
    assert {"rows.id", "tombstones.mark", "kind", "parameters"} <= names
    assert {name for name in names if saved_part_of(name) is None} == set()


def saved_fields(folder):
    """Yield every field of a saved model: keys of its configuration, columns of its tables."""
    db = sqlite3.connect(folder / "rows.sqlite")
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        yield from (f"{table}.{column}" for column in columns)
        if table == "model":
            yield from json.loads(db.execute("SELECT config FROM model").fetchone()[0])
    db.close()
    if (folder / "config.json").exists():
        yield from set(json.loads((folder / "config.json").read_text())) - {"format"}


def test_everything_kept_of_rows_is_below_a_declared_cache():
    model = made("gaussian", range(ROWS), trained=False)
    assert kept(model.memory.live)
    assert part_of(model.memory.live, "_followers") is Part.CACHE


@pytest.mark.parametrize("declared", [HISTORY, SAVED_HISTORY], ids=["process", "disk"])
def test_the_page_says_what_each_field_reveals(declared):
    names = {}
    for name, reveals in declared.items():
        names.setdefault(reveals, []).append(f"`{name}`")
    page = (Path(__file__).parents[2] / "docs" / "held.md").read_text()
    for reveals, fields in names.items():
        assert f"| {', '.join(fields)} | {reveals} |" in page


def test_a_field_is_declared_once():
    assert STATE.isdisjoint(HISTORY)
    assert STATE.isdisjoint(CACHES)
    assert set(HISTORY).isdisjoint(CACHES)
    assert SAVED_STATE.isdisjoint(SAVED_HISTORY)


def test_a_field_that_nobody_declared_is_found():
    model = made("prototypes", range(ROWS), trained=False)
    model.memory_._last_forgotten = "subject-000"
    assert declared(model)[1] == {"Memory._last_forgotten"}
