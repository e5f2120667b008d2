"""Random sequences of everything that can be done to a model, beside a plain record of the truth.

The record knows what the library must not be able to forget to mention: which rows any weight, or
any choice, was made by, and which rows were forgotten. After each step the model's words are held
against it. A level that is too low is no error here; one that is too high is.
"""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from erasable import KNNClassifier, SPMClassifier, audit, load
from erasable.errors import ErasableError, StateError, StoreError

PEOPLE = ["ada", "ben", "cyd"]
CLASSES = ["cat", "dog"]
PICTURES = np.random.default_rng(0).integers(0, 256, size=(16, 16)).astype(np.uint8)
FORMS = {
    "float32": lambda pictures: (pictures / 255).astype(np.float32),
    "float64": lambda pictures: pictures / 255,
    "float16": lambda pictures: (pictures / 255).astype(np.float16),
    "fortran": lambda pictures: np.asfortranarray(pictures / 255),
}
TINY = {"encoder": "mlp", "encoder_options": {"hidden": [4], "dim": 4}, "random_state": 0}


@dataclass(frozen=True)
class Fact:
    """A row as the world knows it, whatever it is called."""

    picture: int
    id: str
    group: str | None
    label: str


facts = st.builds(
    Fact,
    picture=st.integers(0, len(PICTURES) - 1),
    id=st.sampled_from([f"r{number}" for number in range(12)]),
    group=st.sampled_from([*PEOPLE, None]),
    label=st.sampled_from(CLASSES),
)
some_facts = st.lists(facts, min_size=1, max_size=6, unique_by=lambda fact: fact.id)
forms = st.sampled_from(sorted(FORMS))


class Sequences(RuleBasedStateMachine):
    """A model, the truth about it, and rules that may lead the one away from the other."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="erasable-attack-"))
        self.path = self.folder / "model"
        self.model: Any = None
        self.seen: list[Fact] = []  # by weights
        self.chosen: list[Fact] = []  # k was chosen by these
        self.live: dict[str, Fact] = {}
        self.gone: dict[str, Fact] = {}  # forgotten, and not reinstated
        self.saved: tuple[Any, ...] | None = None
        self.copies: list[tuple[Path, int]] = []
        self.forgets_saved = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- making models ---------------------------------------------------------------------------

    @initialize(rows=st.lists(facts, min_size=4, max_size=8, unique_by=lambda f: f.id), form=forms)
    def fit(self, rows: list[Fact], form: str) -> None:
        self._fit(SPMClassifier(**TINY, epochs=1, batch_size=4), rows, form)

    @rule(rows=some_facts, form=forms, is_knn=st.booleans(), adapts=st.booleans())
    def fit_again(self, rows: list[Fact], form: str, is_knn: bool, adapts: bool) -> None:
        kind = KNNClassifier if is_knn else SPMClassifier
        options = {**TINY, "encoder": "auto", "encoder_options": None} if adapts else TINY
        model = kind(**options, epochs=0 if adapts else 1, batch_size=4)
        before, self.saved = self.seen, None
        if self._fit(model, rows, form, init=self.model if adapts else None) and adapts:
            self.seen = before

    def _fit(self, model: Any, rows: list[Fact], form: str, init: Any = None) -> bool:
        try:
            model.fit(*_given(rows, form), **_named(rows), init=init)
        except ErasableError:
            return False
        self.model, self.live = model, {fact.id: fact for fact in rows}
        self.seen = list(rows) if model.history_ else []
        if init is None:
            self.gone = {}
        self.path = self.folder / f"model-{len(list(self.folder.iterdir()))}"
        self.saved, self.copies, self.chosen = None, [], []
        return True

    # -- changing rows ---------------------------------------------------------------------------

    @rule(rows=some_facts, form=forms, reinstate=st.booleans(), skip=st.booleans())
    def remember(self, rows: list[Fact], form: str, reinstate: bool, skip: bool) -> None:
        options = {"reinstate": reinstate, "skip_forgotten": skip and not reinstate}
        try:
            self.model.remember(*_given(rows, form), **_named(rows), **options)
        except ErasableError:
            return
        before = set(self.live)
        for fact in rows:
            if fact.id in before or fact.id not in self.model.memory:
                assert not reinstate
                continue
            if not reinstate:
                pictures = {gone.picture for gone in self.gone.values()}
                assert fact.id not in self.gone, "a forgotten id came back"
                assert fact.picture not in pictures, "a forgotten picture came back"
            self.live[fact.id] = fact
            self.gone = {
                gone_id: gone
                for gone_id, gone in self.gone.items()
                if gone_id != fact.id and gone.picture != fact.picture
            }

    @rule(number=st.integers(0, 11), missing_ok=st.booleans(), dry_run=st.booleans())
    def forget_id(self, number: int, missing_ok: bool, dry_run: bool) -> None:
        self._forget(ids=[f"r{number}"], missing_ok=missing_ok, dry_run=dry_run)

    @rule(group=st.sampled_from(PEOPLE), missing_ok=st.booleans(), dry_run=st.booleans())
    def forget_group(self, group: str, missing_ok: bool, dry_run: bool) -> None:
        self._forget(groups=[group], missing_ok=missing_ok, dry_run=dry_run)

    @rule(label=st.sampled_from(CLASSES), missing_ok=st.booleans(), dry_run=st.booleans())
    def forget_class(self, label: str, missing_ok: bool, dry_run: bool) -> None:
        self._forget(classes=[label], missing_ok=missing_ok, dry_run=dry_run)

    def _forget(self, *, missing_ok: bool, dry_run: bool, **named: list[str]) -> None:
        taken = self._taken(**named)
        try:
            found = self.model.forget(**named, missing_ok=missing_ok, dry_run=dry_run)
        except ErasableError:
            return
        assert found.rows == len(taken)
        if found.level == "exact":
            assert not self._was_seen(taken, **named), f"exact, but {named} were learnt from"
        if not dry_run:
            for fact in taken:
                self.gone[fact.id] = self.live.pop(fact.id)

    @rule(number=st.integers(0, 11), group=st.sampled_from(PEOPLE), simulate=st.booleans())
    def audit(self, number: int, group: str, simulate: bool) -> None:
        named = {"ids": [f"r{number}"], "groups": [group]}
        taken = self._taken(**named)
        found = audit(self.model, **named, simulate=simulate, missing_ok=True)
        assert found.verdict != "failed", found
        if found.verdict == "exact_verified":
            forgotten = [self.gone[f"r{number}"]] if f"r{number}" in self.gone else []
            assert not self._was_seen([*taken, *forgotten], **named), "verified as exact"
        if taken and not simulate:
            assert found.verdict == "still_there"

    @rule(k=st.integers(1, 3), rows=some_facts, form=forms)
    def tune(self, k: int, rows: list[Fact], form: str) -> None:
        if not isinstance(self.model, KNNClassifier):
            return
        try:
            self.model.tune(*_given(rows, form), ks=range(1, k + 1), **_named(rows))
        except ErasableError:
            return
        self.chosen = [*self.chosen, *self.live.values(), *rows]

    # -- on disk ---------------------------------------------------------------------------------

    @rule()
    def save(self) -> None:
        try:
            self.model.save(self.path)
        except StateError:  # another copy was saved since
            return
        self.saved = dict(self.live), dict(self.gone), self.seen, self.chosen
        self.forgets_saved = len(self.gone)

    @precondition(lambda self: self.saved is not None)
    @rule()
    def load(self) -> None:
        assert self.saved is not None
        self.model = load(self.path)
        live, gone, self.seen, self.chosen = self.saved
        self.live, self.gone = dict(live), dict(gone)

    @precondition(lambda self: self.saved is not None)
    @rule()
    def copy_away(self) -> None:
        copy = self.folder / f"copy-{len(list(self.folder.iterdir()))}"
        shutil.copytree(self.path, copy)
        self.copies.append((copy, len(self.gone)))

    @precondition(lambda self: self.copies and self.saved is not None)
    @rule(choice=st.integers(0, 9))
    def put_an_older_copy_in_its_place(self, choice: int) -> None:
        assert self.saved is not None
        copy, _ = self.copies[choice % len(self.copies)]
        aside = self.folder / "aside"
        self.path.rename(aside)
        shutil.copytree(copy, self.path)
        try:
            restored = load(self.path)
            back = [row_id for row_id in self.saved[1] if row_id in restored.memory]
            assert not back, f"{back} came back with an older copy"
        except (StoreError, StateError):
            pass
        finally:
            shutil.rmtree(self.path)
            aside.rename(self.path)

    # -- what always holds -----------------------------------------------------------------------

    @invariant()
    def the_model_has_the_rows_that_it_should_have(self) -> None:
        if self.model is not None:
            assert {row.id for row in self.model.memory} == set(self.live)

    # -- the truth -------------------------------------------------------------------------------

    def _taken(
        self,
        ids: list[str] | None = None,
        groups: list[str] | None = None,
        classes: list[str] | None = None,
    ) -> list[Fact]:
        return [
            fact
            for fact in self.live.values()
            if fact.id in (ids or [])
            or fact.group in (groups or [])
            or fact.label in (classes or [])
        ]

    def _was_seen(
        self,
        taken: list[Fact],
        ids: list[str] | None = None,
        groups: list[str] | None = None,
        classes: list[str] | None = None,
    ) -> bool:
        pictures = {fact.picture for fact in taken}
        named = {fact.id for fact in taken} | set(ids or [])
        return any(
            fact.picture in pictures
            or fact.id in named
            or fact.group in (groups or [])
            or fact.label in (classes or [])
            for fact in (*self.seen, *self.chosen)
        )


def _given(rows: list[Fact], form: str) -> tuple[Any, list[str]]:
    return FORMS[form](PICTURES[[fact.picture for fact in rows]]), [fact.label for fact in rows]


def _named(rows: list[Fact]) -> dict[str, Any]:
    return {"ids": [fact.id for fact in rows], "groups": [fact.group for fact in rows]}
