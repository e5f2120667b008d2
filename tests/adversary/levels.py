"""Attempts to get the level ``exact`` for rows that something learnt from."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from adversary.attempts import attempt, outcome
from erasable import ParametricClassifier, SPMClassifier, audit, convert, load

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
Y = np.arange(60) % 3
IDS = list(range(60))
GROUPS = ["u3" if row < 3 else "others" for row in range(60)]


def trained(**options: Any) -> SPMClassifier:
    model = SPMClassifier(epochs=1, random_state=0, **options)
    return model.fit(X, Y, ids=IDS, groups=GROUPS)


def later(model: SPMClassifier, count: int = 1, **named: Any) -> SPMClassifier:
    """Remember rows that no weight saw."""
    ids = [f"later-{row}" for row in range(count)]
    return model.remember(X[:count] + 5, Y[:count], ids=ids, **named)


@attempt(
    "Train on rows of u3, forget them by id, remember one later row of u3, forget the group",
    before="exact",
    now="memory",
)
def forget_a_group_whose_trained_rows_are_gone(folder: Path) -> str:
    model = trained()
    model.forget(ids=[0, 1, 2])

    return str(later(model, groups=["u3"]).forget(groups=["u3"]).level)


@attempt(
    "The same, and ask with dry_run",
    before="exact",
    now="memory",
)
def plan_to_forget_a_group_whose_trained_rows_are_gone(folder: Path) -> str:
    model = trained()
    model.forget(ids=[0, 1, 2])

    return str(later(model, groups=["u3"]).forget(groups=["u3"], dry_run=True).level)


@attempt(
    "The same, and ask an audit",
    before="exact_verified",
    now="memory_verified",
)
def audit_a_group_whose_trained_rows_are_gone(folder: Path) -> str:
    model = trained()
    model.forget(ids=[0, 1, 2])
    later(model, groups=["u3"])
    try:
        return str(audit(model, groups=["u3"], simulate=True).verdict)
    except TypeError:  # the first version always simulated
        return str(audit(model, groups=["u3"]).verdict)


@attempt(
    "Train without groups, remember a row, forget it and a group of which no row is left",
    before="memory",
    now="memory",
)
def forget_a_group_that_was_never_recorded(folder: Path) -> str:
    model = SPMClassifier(epochs=1, random_state=0).fit(X, Y, ids=IDS)
    receipt = later(model).forget(ids=["later-0"], groups=["u3"], missing_ok=True)
    return str(receipt.level)


@attempt(
    "Train on class 1, forget it, remember one row of it, forget the classes 1 and True",
    before="memory",
    now="memory",
)
def forget_a_class_and_an_equal_one_of_another_type(folder: Path) -> str:
    model = trained()
    model.forget(classes=[1])
    model.remember(X[:1] + 5, [1], ids=["later"])
    return str(model.forget(classes=[1, True], missing_ok=True).level)


@attempt(
    "Train on a class, forget its rows by id, remember one later row of it, forget the class",
    before="exact",
    now="memory",
)
def forget_a_class_whose_trained_rows_are_gone(folder: Path) -> str:
    model = trained()
    model.forget(ids=[row for row in IDS if Y[row] == 0])

    return str(later(model).forget(classes=[0]).level)


@attempt(
    "Forget a group through a model that was saved and loaded meanwhile",
    before="exact",
    now="memory",
)
def forget_a_group_after_loading(folder: Path) -> str:
    model = trained()
    model.forget(ids=[0, 1, 2])
    model.save(folder / "model")

    return str(later(load(folder / "model"), groups=["u3"]).forget(groups=["u3"]).level)


@attempt(
    "Train without groups, remember a later row of u3, forget u3: nobody said whose rows were seen",
    before="exact",
    now="memory",
)
def forget_a_group_that_training_was_not_told_of(folder: Path) -> str:
    model = SPMClassifier(epochs=1, random_state=0).fit(X, Y, ids=IDS)

    return str(later(model, groups=["u3"]).forget(groups=["u3"]).level)


@attempt(
    "Train a network with an ordinary head, convert it, remember a row of its class, forget that",
    before="exact",
    now="memory",
)
def forget_a_class_that_a_converted_network_saw(folder: Path) -> str:
    network = ParametricClassifier(epochs=1, random_state=0).fit(X, Y)

    return str(later(convert(network)).forget(classes=[0]).level)


@attempt(
    "Adapt a model that was trained on u3 with init, remember a later row of u3, forget u3",
    before="exact",
    now="memory",
)
def forget_a_group_that_the_model_before_was_trained_on(folder: Path) -> str:
    model = SPMClassifier(epochs=0, random_state=0)
    model.fit(X[30:] + 9, Y[30:], ids=IDS[30:], groups=["w"] * 30, init=trained())

    return str(later(model, groups=["u3"]).forget(groups=["u3"]).level)


@attempt(
    "Mistype an id, with missing_ok",
    before="rows 0, exact",
    now="rows 0, None",
)
def mistype_an_id(folder: Path) -> str:
    model = SPMClassifier("identity").remember(X, Y, ids=IDS)
    receipt = model.forget(ids=[999], missing_ok=True)

    return f"rows {receipt.rows}, {receipt.level}"


@attempt(
    "Name no id at all",
    before="rows 0, exact",
    now="rows 0, None",
)
def name_nothing(folder: Path) -> str:
    receipt = SPMClassifier("identity").remember(X, Y, ids=IDS).forget(ids=[])

    return f"rows {receipt.rows}, {receipt.level}"


@attempt(
    "Mistype a group and a class of a model that was never trained, with missing_ok",
    before="rows 0, exact",
    now="rows 0, None",
)
def mistype_a_group_and_a_class(folder: Path) -> str:
    model = SPMClassifier("identity").remember(X, Y, ids=IDS)
    receipt = model.forget(groups=["typo"], classes=["typo"], missing_ok=True)

    return f"rows {receipt.rows}, {receipt.level}"


@attempt(
    "Forget a copy of a trained row, then ask for its id again with missing_ok",
    before="memory, then exact",
    now="memory, then memory",
)
def ask_again_for_a_forgotten_copy(folder: Path) -> str:
    model = trained().remember(X[:1], Y[:1], ids=["a copy"])
    first = model.forget(ids=["a copy"])
    again = model.forget(ids=["a copy"], missing_ok=True)

    return f"{first.level}, then {again.level}"


@attempt(
    "Forget a row at level exact, save it into the place of a model of unknown weights, ask again",
    before="memory",
    now="memory",
)
def ask_another_model_that_took_over_the_tombstone(folder: Path) -> str:
    model = SPMClassifier("identity").remember(X, Y, ids=IDS)
    model.forget(ids=[0])
    model.save(folder / "model")
    other = SPMClassifier(epochs=1, random_state=0).fit(
        X[1:], Y[1:], ids=[f"x{i}" for i in IDS[1:]]
    )
    other.memory.respect(model.memory.tombstones.marks)
    other.network_.encoder.layers[2].weight.data += 1  # nobody knows what these have seen

    return str(other.forget(ids=[0], missing_ok=True).level)


@attempt(
    "Audit a row that is live and votes",
    before="exact_verified",
    now="still_there",
)
def audit_a_row_that_votes(folder: Path) -> str:
    model = SPMClassifier("identity").remember(X, Y, ids=IDS)

    return str(audit(model, ids=[0]).verdict)


@attempt(
    "Audit a group of which one row is gone and another is live",
    before="exact_verified",
    now="still_there",
)
def audit_a_group_that_is_half_gone(folder: Path) -> str:
    model = SPMClassifier("identity").remember(X, Y, ids=IDS, groups=GROUPS)
    model.forget(ids=[0, 1])

    return str(audit(model, groups=["u3"]).verdict)


@attempt(
    "Audit ids that nothing is known of, with missing_ok",
    before="exact_verified",
    now="nothing_found",
)
def audit_what_never_was(folder: Path) -> str:
    model = SPMClassifier("identity").remember(X, Y, ids=IDS)

    return str(audit(model, ids=[999], missing_ok=True).verdict)


@attempt(
    "Train, forget the row, and remove the keys before asking again",
    before="memory",
    now="None",
)
def ask_again_without_keys(folder: Path) -> str:
    from erasable.memory import keys_folder

    model = trained()
    model.forget(ids=[0])
    model.save(folder / "model")
    keys = keys_folder()
    shutil.move(keys, folder / "elsewhere")
    _forget_keys_of_the_process()
    got = outcome(lambda: load(folder / "model").forget(ids=[0], missing_ok=True).level)
    shutil.move(folder / "elsewhere", keys)
    return got


@attempt(
    "Forget a copy of a trained row, store another input under its id, forget that, ask for the id",
    before="memory, then exact, exact_verified",
    now="memory, then memory, memory_verified",
)
def ask_for_an_id_that_two_inputs_had(folder: Path) -> str:
    model = trained()
    model.forget(ids=[0])
    model.remember(X[:1], Y[:1], ids=["x"], groups=[None], reinstate=True)
    first = model.forget(ids=["x"]).level
    model.remember(X[:1] + 9, Y[:1], ids=["x"], groups=[None], reinstate=True)
    model.forget(ids=["x"])
    again = model.forget(ids=["x"], missing_ok=True).level

    return f"{first}, then {again}, {audit(model, ids=['x']).verdict}"


def _forget_keys_of_the_process() -> None:
    from erasable.memory import keyring

    keyring._known.clear()
    keyring._active = None


@attempt(
    "Train on the class True, forget its rows by id, remember one later row, forget the classes 1 "
    "and True, of which 1 is not there",
    before="exact, exact_verified",
    now="memory, memory_verified",
)
def forget_a_class_beside_one_that_equals_it(folder: Path) -> str:
    labels = [True if row % 2 else "b" for row in IDS]
    model = SPMClassifier(epochs=1, random_state=0).fit(X, labels, ids=IDS, groups=GROUPS)
    model.forget(ids=IDS[1::2])
    model.remember(X[:1] + 5, [True], ids=["later"], groups=[None])
    asked: dict[str, Any] = {"classes": [1, True], "missing_ok": True}
    report = audit(model, **asked, simulate=True)

    return f"{model.forget(**asked).level}, {report.verdict}"


@attempt(
    "Train without groups, forget a later row and, in the same request, a group that the memory "
    "does not have",
    before="exact",
    now="memory",
)
def forget_a_later_row_and_a_group_that_nobody_named(folder: Path) -> str:
    model = SPMClassifier(epochs=1, random_state=0).fit(X, Y, ids=IDS)
    later(model)

    return str(model.forget(ids=["later-0"], groups=["u3"], missing_ok=True).level)
