"""Attempts to have the wrong rows forgotten, or inputs read as something they are not."""

import contextlib
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from torch import nn

from adversary.attempts import attempt, outcome
from erasable import SPMClassifier, load
from erasable.errors import ErasableError

rng = np.random.default_rng(0)
X = rng.normal(size=(6, 3)).astype(np.float32)
Y = list("aabbab")
BYTES = rng.integers(0, 256, (20, 6, 5), dtype=np.uint8)
LABELS = ["a", "b"] * 10


def table(index: object = None) -> object:
    """Return rows as a DataFrame of pandas."""
    import pandas

    return pandas.DataFrame(X, columns=list("pqr"), index=index)  # type: ignore[call-overload]


def column(values: list[str], index: object = None) -> object:
    """Return values as a Series of pandas."""
    import pandas

    return pandas.Series(values, index=index)  # type: ignore[call-overload]


def gone(model: SPMClassifier) -> str:
    """Tell which of the inputs no row holds any more."""
    held = model.memory.table.embeddings
    return str([row for row in range(6) if not np.abs(held - X[row]).sum(1).min() < 0.01])


@attempt(
    "Fit a table whose index numbers customers, forget customer 3",
    before="forgot input [3], level exact",
    now="forgot input [1], level exact",
)
def forget_the_customer_of_an_index(folder: Path) -> str:
    model = SPMClassifier("identity").remember(table([5, 3, 4, 1, 2, 0]), Y)
    receipt = model.forget(ids=[3])
    return f"forgot input {gone(model)}, level {receipt.level}"


@attempt(
    "Remember a sorted table, forget by the index of the rows that are to go",
    before="forgot input [0, 1], level exact",
    now="forgot input [4, 5], level exact",
)
def forget_by_the_index_of_a_filtered_table(folder: Path) -> str:
    rows = table([5, 4, 3, 2, 1, 0])
    model = SPMClassifier("identity").remember(rows, Y)
    receipt = model.forget(ids=rows.iloc[[4, 5]].index)  # type: ignore[attr-defined]
    return f"forgot input {gone(model)}, level {receipt.level}"


@attempt(
    "Forget by the default index of another table",
    before="forgot input [0, 1], level exact",
    now="refused",
)
def forget_by_a_default_index(folder: Path) -> str:
    model = SPMClassifier("identity").remember(table(), Y)
    others = table().iloc[3:5].reset_index(drop=True)  # type: ignore[attr-defined]

    def forget() -> str:
        receipt = model.forget(ids=others.index)
        return f"forgot input {gone(model)}, level {receipt.level}"

    return outcome(forget)


@attempt(
    "Remember two tables with default indexes, forget by the index of rows of the second",
    before="forgot input [1, 2], level exact",
    now="refused",
)
def forget_by_the_index_of_the_second_table(folder: Path) -> str:
    second = table() + 9  # type: ignore[operator]
    model = SPMClassifier("identity").remember(table(), Y).remember(second, Y)

    def forget() -> str:
        receipt = model.forget(ids=second.iloc[[1, 2]].index)
        return f"forgot input {gone(model)}, level {receipt.level}"

    return outcome(forget)


@attempt(
    "Fit a table whose index names two rows alike, forget that name",
    before="forgot input [1], level exact",
    now="refused",
)
def forget_a_name_that_two_rows_have(folder: Path) -> str:
    def forget() -> str:
        model = SPMClassifier("identity").remember(table([1, 1, 2, 3, 4, 5]), Y)
        receipt = model.forget(ids=[1])
        return f"forgot input {gone(model)}, level {receipt.level}"

    return outcome(forget)


@attempt(
    "Give groups as a Series in another order than the table, forget a group",
    before="forgot input [5], level exact",
    now="forgot input [0], level exact",
)
def forget_a_group_that_came_in_another_order(folder: Path) -> str:
    names = [f"row-{row}" for row in range(6)]
    groups = column(names, names).iloc[::-1]  # type: ignore[attr-defined]
    model = SPMClassifier("identity").remember(table(names), Y, ids=names, groups=groups)
    receipt = model.forget(groups=["row-0"])
    return f"forgot input {gone(model)}, level {receipt.level}"


@attempt(
    "Give ids as a Series in another order than the table, forget one",
    before="forgot input [5], level exact",
    now="forgot input [0], level exact",
)
def forget_an_id_that_came_in_another_order(folder: Path) -> str:
    names = [f"row-{row}" for row in range(6)]
    ids = column(names, names).iloc[::-1]  # type: ignore[attr-defined]
    model = SPMClassifier("identity").remember(table(names), Y, ids=ids)
    receipt = model.forget(ids=["row-0"])
    return f"forgot input {gone(model)}, level {receipt.level}"


@attempt(
    "Give groups with a default index beside a shuffled table",
    before="forgot input [0], level exact",
    now="refused",
)
def forget_a_group_of_uncertain_order(folder: Path) -> str:
    def forget() -> str:
        groups = column([f"group-{row}" for row in range(6)])
        rows = table([5, 4, 3, 2, 1, 0])
        model = SPMClassifier("identity").remember(rows, Y, groups=groups)
        receipt = model.forget(groups=["group-0"])
        return f"forgot input {gone(model)}, level {receipt.level}"

    return outcome(forget)


@attempt(
    "Hand over the table itself as ids, with missing_ok",
    before="0 rows, level exact",
    now="refused",
)
def forget_by_a_table(folder: Path) -> str:
    model = SPMClassifier("identity").remember(table(), Y)

    def forget() -> str:
        receipt = model.forget(ids=table(), missing_ok=True)
        return f"{receipt.rows} rows, level {receipt.level}"

    return outcome(forget)


@attempt(
    "Audit by a default index",
    before="audited 2 rows",
    now="refused",
)
def audit_by_a_default_index(folder: Path) -> str:
    from erasable.models import audit

    model = SPMClassifier("identity").remember(table(), Y)
    index = table().iloc[:2].index  # type: ignore[attr-defined]

    return outcome(lambda: f"audited {audit(model, ids=index).forgotten} rows")


def _answer(first: np.ndarray, later: np.ndarray) -> str:
    """Tell whether a model answers for its own rows in another form as it should."""
    model = SPMClassifier("identity", grid_bits=8).remember(first, LABELS)

    def predict() -> str:
        is_same = np.allclose(model.embed(later), model.embed(first), atol=1e-5)
        return "the same inputs" if is_same else "other inputs, without a word"

    return outcome(predict)


def _forms() -> dict[str, np.ndarray]:
    unit = BYTES.astype(np.float32) / np.float32(255)
    whole = BYTES.astype(np.float32)
    return {"bytes": BYTES, "unit": unit, "signed": (unit - 0.45) / 0.22, "whole": whole}


@attempt(
    "Remember standardised images, predict their bytes",
    before="other inputs, without a word",
    now="refused",
)
def predict_bytes_of_standardised_images(folder: Path) -> str:
    return _answer(_forms()["signed"], BYTES)


@attempt(
    "Remember bytes, predict the same images as numbers up to 255",
    before="other inputs, without a word",
    now="refused",
)
def predict_numbers_of_bytes(folder: Path) -> str:
    return _answer(BYTES, _forms()["whole"])


@attempt(
    "Remember numbers up to 255, predict the same images as bytes",
    before="other inputs, without a word",
    now="the same inputs",
)
def predict_bytes_of_numbers(folder: Path) -> str:
    return _answer(_forms()["whole"], BYTES)


@attempt(
    "Remember numbers from 0 to 1, predict the same images as bytes",
    before="the same inputs",
    now="the same inputs",
)
def predict_bytes_of_numbers_from_0_to_1(folder: Path) -> str:
    return _answer(_forms()["unit"], BYTES)


@attempt(
    "Remember bytes, predict the same images as whole numbers of 64 bits",
    before="other inputs, without a word",
    now="the same inputs",
)
def predict_whole_numbers_of_bytes(folder: Path) -> str:
    return _answer(BYTES, BYTES.astype(np.int64))


@attempt(
    "Remember images from 0 to 1, predict them standardised",
    before="other inputs, without a word",
    now="refused",
)
def predict_standardised_images_of_unit(folder: Path) -> str:
    return _answer(_forms()["unit"], _forms()["signed"])


@attempt(
    "Remember flags as bytes, predict them as floats",
    before="other inputs, without a word",
    now="refused",
)
def predict_flags_as_floats(folder: Path) -> str:
    flags = (BYTES > 127).astype(np.uint8).reshape(20, -1)
    return _answer(flags, flags.astype(np.float32))


@attempt(
    "Remember flags as floats, predict them as bytes",
    before="other inputs, without a word",
    now="refused",
)
def predict_flags_as_bytes(folder: Path) -> str:
    flags = (BYTES > 127).astype(np.uint8).reshape(20, -1)
    return _answer(flags.astype(np.float32), flags)


@attempt(
    "Remember standardised images, save, load, predict their bytes",
    before="other inputs, without a word",
    now="refused",
)
def predict_bytes_after_loading(folder: Path) -> str:
    model = SPMClassifier("identity").remember(_forms()["signed"], LABELS)
    model.save(folder / "model")
    loaded = load(folder / "model")

    def predict() -> str:
        loaded.predict(BYTES)
        return "other inputs, without a word"

    return outcome(predict)


@attempt(
    "Train on standardised images, convert, remember their bytes",
    before="other inputs, without a word",
    now="refused",
)
def convert_and_remember_another_form(folder: Path) -> str:
    from erasable import ParametricClassifier, convert

    twin = ParametricClassifier(encoder_options={"widths": [4], "dim": 8}, epochs=1, random_state=0)
    model = convert(twin.fit(_forms()["signed"], LABELS))

    def remember() -> str:
        model.remember(BYTES, LABELS)
        return "other inputs, without a word"

    return outcome(remember)


@attempt(
    "Convert a network with its mean and deviation, remember images that are standardised already",
    before="no way to say what the network was trained on",
    now="refused",
)
def standardise_twice(folder: Path) -> str:
    import inspect

    from erasable import convert

    if "preprocess" not in inspect.signature(convert).parameters:
        return "no way to say what the network was trained on"
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    model = convert(network, "2", preprocess={"mean": [0.45], "std": [0.22]})

    return outcome(lambda: model.remember(_forms()["signed"], LABELS))


def _table_file(path: Path, columns: tuple[str, ...]) -> Path:
    place = {"age": 0, "height": 1, "mass": 2, "shoe": 2}
    lines = [",".join(["id", *columns, "label"])]
    for row in range(6):
        cells = [str(X[row, place[name]] + 10 * place[name]) for name in columns]
        lines.append(",".join([f"row-{row}", *cells, Y[row]]))
    path.write_text("\n".join(lines) + "\n")
    return path


def _on_the_command_line(folder: Path, columns: tuple[str, ...]) -> str:
    """Tell what a model that was trained on a table makes of another one."""
    from typer.testing import CliRunner

    from erasable.cli import app

    def call(*words: str | Path) -> tuple[int, str]:
        found = CliRunner().invoke(app, [str(word) for word in words])
        return found.exit_code, found.stdout

    model, known = folder / "model", _table_file(folder / "t.csv", ("age", "height", "mass"))
    call("train", model, known, "--encoder", "identity", "--epochs", "0")
    _, expected = call("votes", model, known, "--json")
    code, found = call("votes", model, _table_file(folder / "other.csv", columns), "--json")
    if code:
        return "refused"
    return "the same votes" if found == expected else "other votes, without a word"


@attempt(
    "Train on a table, ask with two columns swapped",
    before="other votes, without a word",
    now="the same votes",
)
def swap_two_columns(folder: Path) -> str:
    return _on_the_command_line(folder, ("height", "age", "mass"))


@attempt(
    "Train on a table, ask with another column in the place of one",
    before="the same votes",
    now="refused",
)
def replace_a_column(folder: Path) -> str:
    return _on_the_command_line(folder, ("age", "height", "shoe"))


def _kept(change: Callable[[SPMClassifier], object]) -> str:
    """Tell whether a call that is refused changes parameters."""
    model = SPMClassifier("identity").remember(X, Y)
    before = model.get_params()
    with contextlib.suppress(ErasableError, ValueError, TypeError, AttributeError):
        change(model)
    return "nothing was changed" if model.get_params() == before else "half of the call was done"


@attempt(
    "Set a parameter, and one that does not exist",
    before="half of the call was done",
    now="nothing was changed",
)
def set_a_parameter_that_does_not_exist(folder: Path) -> str:
    return _kept(lambda model: model.set_params(reduction="rows", magic=1))


@attempt(
    "Set a parameter of a model with rows to what no fit would take",
    before="half of the call was done",
    now="nothing was changed",
)
def set_a_parameter_to_nonsense(folder: Path) -> str:
    return _kept(lambda model: model.set_params(reduction="rows", temperature=-1.0))


@attempt(
    "Ask a model that was trained on a table with names for an array without any",
    before="a warning",
    now="a warning",
)
def leave_the_names_away(folder: Path) -> str:
    model = SPMClassifier("identity").remember(table(), Y)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.predict(X)
    return "a warning" if found else "no word"
