"""Attempts to have a generator draw by what was forgotten, or to have a false one verified."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from adversary.attempts import attempt, outcome
from erasable import SPMGenerator, audit, load

NAMED = "the-class-of-u3"  # easy to find in a file
SAME, OTHER = "the same images", "other images"


def images(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 4, 4), dtype=np.uint8)


def model(labels: str = "permuted", **options: Any) -> SPMGenerator:
    """Return a generator with two rows of each of four classes, ids 0 to 7."""
    made = SPMGenerator(
        channels=(4,), layers=1, labels=labels, random_state=0, **{"steps": 0, **options}
    )
    return made.fit(images(8), list("aabbccdd"), ids=list(range(8)))


def remember(generator: SPMGenerator, *labels: str) -> SPMGenerator:
    """Remember a row of each class, always the same one."""
    for label in labels:
        row = images(1, seed=sum(map(ord, label)))
        generator.remember(row, [label], ids=[f"row of {label}"], reinstate=True)
    return generator


def compared(left: SPMGenerator, right: SPMGenerator, classes: Sequence[str]) -> str:
    drawn = [
        generator.sample(
            list(classes), num_inference_steps=3, generator=torch.Generator().manual_seed(0)
        )
        for generator in (left, right)
    ]
    return SAME if np.array_equal(*drawn) else OTHER


def found_in(folder: Path, word: str) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return "in the saved model" if any(word.encode() in f.read_bytes() for f in files) else "gone"


def with_free_numbers(*classes: str) -> SPMGenerator:
    generator = model()
    generator.forget(classes=list(classes))
    return generator


# -- numbers of classes ----------------------------------------------------------------------------


@attempt(
    "Remember classes x and y, forget x: is y drawn as if x had never been there?",
    before=OTHER,
    now=SAME,
)
def forget_a_class_that_took_a_number(folder: Path) -> str:
    generator = remember(with_free_numbers("c", "d"), "x", "y")
    generator.forget(classes=["x"])
    return compared(generator, remember(with_free_numbers("c", "d"), "y"), "aby")


@attempt("Remember two classes in either order", before=OTHER, now=SAME)
def remember_two_classes_in_another_order(folder: Path) -> str:
    return compared(
        remember(with_free_numbers("c"), "x", "y"),
        remember(with_free_numbers("c"), "y", "x"),
        "abxy",
    )


@attempt(
    "Remember a class while all numbers are taken, forget another; or the other way round",
    before=OTHER,
    now=SAME,
)
def free_a_number_before_or_after_a_class_comes(folder: Path) -> str:
    first = remember(model(), "x")
    first.forget(classes=["c"])
    return compared(first, remember(with_free_numbers("c"), "x"), "abx")


@attempt(
    "Forget a trained class before or after another trained class, with a later one between",
    before=OTHER,
    now=SAME,
)
def forget_two_trained_classes_around_a_later_one(folder: Path) -> str:
    first, second = model(), model()
    for generator, order in ((first, "ca"), (second, "ac")):
        generator.forget(classes=[order[0]])
        remember(generator, "x")
        generator.forget(classes=[order[1]])
    return compared(first, second, "bx")


@attempt(
    "Save, load and go on, where another process did everything at once",
    before=OTHER,
    now=SAME,
)
def save_between_two_classes(folder: Path) -> str:
    remember(with_free_numbers("c"), "y").save(folder / "model")
    return compared(
        remember(load(folder / "model"), "x"), remember(with_free_numbers("c"), "x", "y"), "abxy"
    )


# -- names of classes ------------------------------------------------------------------------------


@attempt(
    "Train an oracle without a class that only classes= names, and look into what it saves",
    before="in the saved model",
    now="gone",
)
def name_a_class_that_has_no_rows(folder: Path) -> str:
    generator = SPMGenerator(channels=(4,), layers=1, steps=0, labels="plain", random_state=0)
    generator.fit(images(2), ["a", "b"], classes=["a", "b", NAMED]).save(folder / "model")
    return found_in(folder, NAMED)


@attempt(
    "Forget a class in the memory itself, not by the model, and look into what it saves",
    before="in the saved model",
    now="gone",
)
def forget_a_class_behind_the_models_back(folder: Path) -> str:
    generator = SPMGenerator(channels=(4,), layers=1, steps=0, labels="permuted", random_state=0)
    generator.fit(images(3), ["a", "b", NAMED])
    generator.memory.forget(classes=[NAMED])
    generator.save(folder / "model")
    return found_in(folder, NAMED)


@attempt(
    "Interrupt a forget after the rows have gone and before the name of their class has",
    before="in the saved model",
    now="gone",
)
def interrupt_before_the_name_goes(folder: Path) -> str:
    generator = SPMGenerator(channels=(4,), layers=1, steps=0, labels="permuted", random_state=0)
    generator.fit(images(3), ["a", "b", NAMED])
    with patch.object(SPMGenerator, "_prune", side_effect=KeyboardInterrupt):
        try:
            generator.forget(classes=[NAMED])
        except KeyboardInterrupt:
            generator.save(folder / "model")
    return found_in(folder, NAMED)


# -- audits ----------------------------------------------------------------------------------------


def audited(change: Callable[[SPMGenerator], object], **named: Any) -> str:
    """Return the verdict of an audit of a generator that was changed behind its back."""
    generator = remember(model(), "x")
    change(generator)
    return outcome(lambda: audit(generator, **named).verdict)


@attempt(
    "Put a part of a forgotten row's patches into a row that stays, and audit",
    before="refused",
    now="failed",
)
def audit_a_row_that_took_over_patches(folder: Path) -> str:
    def change(generator: SPMGenerator) -> None:
        table = generator.memory.table
        table.embeddings[0, :4] = table.embeddings[2, :4]
        generator.forget(ids=[2])

    return audited(change)


@attempt(
    "Leave a forgotten row in the sums of its class, and audit", before="refused", now="failed"
)
def audit_sums_that_keep_a_row(folder: Path) -> str:
    def change(generator: SPMGenerator) -> None:
        generator.memory.sums._sums[0] += 1

    return audited(change)


@attempt("Swap the numbers of two classes, and audit", before="refused", now="failed")
def audit_swapped_numbers_of_classes(folder: Path) -> str:
    def change(generator: SPMGenerator) -> None:
        if hasattr(generator, "known_"):
            generator.known_ = ["b", "a", "c", "d"]
        else:
            object.__setattr__(generator.numbers_, "names", ("b", "a", "c", "d"))

    return audited(change)


@attempt(
    "Train the weights on, behind the record's back, and audit", before="refused", now="failed"
)
def audit_weights_that_were_trained_on(folder: Path) -> str:
    def change(generator: SPMGenerator) -> None:
        with torch.no_grad():
            generator.network_.conv_out.bias += 1e-3

    return audited(change)


@attempt(
    "Have the generator read rows that it kept before they were forgotten, and audit",
    before="refused",
    now="failed",
)
def audit_a_generator_that_reads_what_it_kept(folder: Path) -> str:
    from erasable.models._generator_reading import Reading

    read = Reading.memory

    def keeping(reading: Any, kernels: Any = None) -> Any:
        kept = vars(reading._model.network_).setdefault("kept", {})
        return kept.setdefault(tuple(reading.reads.tolist()), read(reading, kernels))

    with patch.object(Reading, "memory", keeping):
        return audited(lambda generator: None, ids=[0], simulate=True)


@attempt(
    "Audit a generator for trained rows that were forgotten",
    before="refused",
    now="memory_verified",
)
def audit_rows_that_the_weights_were_trained_on(folder: Path) -> str:
    generator = model(steps=1, batch_size=8)
    generator.forget(classes=["c"])
    return outcome(lambda: audit(generator, ids=[4, 5]).verdict)


@attempt("Change a row in the saved file of a generator, and audit", before="refused", now="failed")
def audit_a_row_changed_on_disk(folder: Path) -> str:
    import sqlite3

    generator = remember(model(), "x")
    generator.save(folder / "model")
    with sqlite3.connect(folder / "model" / "rows.sqlite") as connection:
        connection.execute("UPDATE rows SET label = 's:a' WHERE label = 's:x'")
    connection.close()
    return outcome(lambda: audit(generator).verdict)


@attempt(
    "Train on the class 1, and name True among the classes instead",
    before="KeyError",
    now="refused",
)
def name_a_class_that_equals_another(folder: Path) -> str:
    generator = SPMGenerator(channels=(8,), layers=1, steps=1, batch_size=4, labels="plain")
    try:
        return outcome(
            lambda: len(generator.fit(images(4), [1, 1, 2, 2], classes=[True, 2]).memory)
        )
    except KeyError as error:
        return type(error).__name__
