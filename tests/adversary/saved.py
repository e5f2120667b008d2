"""Attempts to be told something false by a saved model: changed, older, or interrupted."""

import contextlib
import hashlib
import json
import logging
import multiprocessing
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from adversary.attempts import attempt
from erasable import SPMClassifier, load
from erasable.errors import ErasableError, StoreError
from erasable.memory import keyring, keys_folder
from erasable.models import change
from erasable.store import Change, Ledger

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4)).astype(np.float32)
Y = (np.arange(60) % 3).tolist()
IDS = list(range(60))


def saved(folder: Path) -> Path:
    """Save a model that was trained on all of its rows."""
    SPMClassifier(epochs=1, random_state=0).fit(X, Y, ids=IDS).save(folder / "model")
    return folder / "model"


def forget(path: Path, *ids: int) -> None:
    model = load(path)
    model.forget(ids=list(ids))
    model.save(path)


def live(path: Path, row: int = 3, **options: Any) -> str:
    """Tell whether a row is there."""
    return "live" if row in load(path, **options).memory else "gone"


def level(path: Path, row: int = 3) -> str:
    return str(load(path).forget(ids=[row], dry_run=True).level)


def told(call: Callable[[], object]) -> str:
    """Return what a call returns, ``refused``, or the name of an error that nobody planned."""
    try:
        return str(call())
    except ErasableError:
        return "refused"
    except Exception as error:  # the attempt is to cause it
        return type(error).__name__


def sql(path: Path, statement: str, *values: object) -> None:
    """Change the rows behind the library's back."""
    with contextlib.closing(sqlite3.connect(path / "rows.sqlite", isolation_level=None)) as db:
        db.execute(statement, values)


def configure(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the configuration behind the library's back, wherever it lies."""
    if (path / "config.json").exists():
        config = json.loads((path / "config.json").read_text())
        change(config)
        (path / "config.json").write_text(json.dumps(config))
        return
    with contextlib.closing(sqlite3.connect(path / "rows.sqlite", isolation_level=None)) as db:
        [(text,)] = db.execute("SELECT config FROM model").fetchall()
        config = json.loads(text)
        change(config)
        db.execute("UPDATE model SET config = ?", (json.dumps(config),))


def digest_again(path: Path) -> None:
    """Compute anew whatever digest a stranger can: one without a key."""
    with contextlib.closing(sqlite3.connect(path / "rows.sqlite", isolation_level=None)) as db:
        if db.execute("PRAGMA user_version").fetchone()[0] == 1:
            tables = {
                "rows": "serial, content",
                "tombstones": "key_id, mark",
                "sources": "place, basis, name",
                "seen": "place, key_id, mark",
            }
            domain, head = b"erasable.record.1", "generations"
        else:
            from erasable.store._seal import RECORD as tables  # noqa: N811 - it is a table

            domain, head = b"erasable.record.2", "model"
        found = hashlib.sha256(domain)
        for table, columns in tables.items():
            for row in db.execute(f"SELECT {columns} FROM {table} ORDER BY {columns}"):  # noqa: S608
                found.update(repr((table, *row)).encode())
        db.execute(f"UPDATE {head} SET record_digest = ?", (found.hexdigest(),))  # noqa: S608


def put_back(backup: Path, path: Path) -> None:
    shutil.rmtree(path)
    shutil.copytree(backup, path)


@contextlib.contextmanager
def connecting(
    prepare: Callable[[sqlite3.Connection, str], None], **options: Any
) -> Iterator[None]:
    """Prepare each connection of SQLite's that is made meanwhile."""
    real = sqlite3.connect

    def connect(path: Any, *args: Any, **given: Any) -> sqlite3.Connection:
        db = real(path, *args, **{**given, **options})
        prepare(db, str(path))
        return db

    sqlite3.connect = connect  # type: ignore[assignment]
    try:
        yield
    finally:
        sqlite3.connect = real


# -- older copies ---------------------------------------------------------------------------------


@attempt(
    "Forget a row, save, put an older copy of the files back, load it",
    before="live",
    now="refused",
)
def put_an_older_copy_back(folder: Path) -> str:
    path = saved(folder)
    shutil.copytree(path, folder / "backup")
    forget(path, 3)
    put_back(folder / "backup", path)
    return told(lambda: live(path))


@attempt(
    "The same, and set the revision in the older copy to the last one",
    before="live",
    now="refused",
)
def put_an_older_copy_back_and_make_it_look_newer(folder: Path) -> str:
    path = saved(folder)
    shutil.copytree(path, folder / "backup")
    forget(path, 3)
    put_back(folder / "backup", path)
    table = "generations" if (path / "config.json").exists() else "model"
    sql(path, f"UPDATE {table} SET revision = revision + 1")  # noqa: S608 - constant names
    return told(lambda: live(path))


@attempt(
    "The same, and ask for what was forgotten since to be forgotten again",
    before="live",
    now="gone",
)
def put_an_older_copy_back_and_catch_up(folder: Path) -> str:
    path = saved(folder)
    shutil.copytree(path, folder / "backup")
    forget(path, 3)
    put_back(folder / "backup", path)
    try:
        return live(path, replay=True)
    except TypeError:
        return live(path)


@attempt(
    "Copy the files of a model, forget a row from it, go on with the copy",
    before="live",
    now="refused",
)
def go_on_with_a_copy_of_the_files(folder: Path) -> str:
    path = saved(folder)
    shutil.copytree(path, folder / "copy")
    forget(path, 3)
    return told(lambda: live(folder / "copy"))


@attempt(
    "Copy the files, forget a row, save the copy over the model",
    before="refused",
    now="refused",
)
def save_an_older_copy_over_the_model(folder: Path) -> str:
    path = saved(folder)
    shutil.copytree(path, folder / "copy")
    forget(path, 3)

    def overwrite() -> str:
        load(folder / "copy").save(path, overwrite=True)
        return live(path)

    return told(overwrite)


@attempt(
    "Replace a model by one that forgets a row, put the replaced one back",
    before="live",
    now="refused",
)
def put_back_a_model_that_was_replaced(folder: Path) -> str:
    path = saved(folder)
    shutil.copytree(path, folder / "backup")
    SPMClassifier(epochs=1, random_state=1).fit(X, Y, ids=IDS).save(path, overwrite=True)
    forget(path, 3)
    put_back(folder / "backup", path)
    return told(lambda: live(path))


@attempt(
    "Put an older copy back and remove the ledger: then nobody can tell, and it must be said",
    before="live, and nothing is said",
    now="live, and it is said",
)
def put_an_older_copy_back_and_remove_the_ledger(folder: Path) -> str:
    path = saved(folder)
    shutil.copytree(path, folder / "backup")
    forget(path, 3)
    put_back(folder / "backup", path)
    shutil.rmtree(keys_folder() / "models", ignore_errors=True)
    said = bool(getattr(load(path), "doubts_", ()))
    return f"{live(path)}, and {'it' if said else 'nothing'} is said"


# -- files that something else has changed --------------------------------------------------------


@attempt(
    "Take the training record out of the file and compute its digest again",
    before="exact",
    now="refused",
)
def remove_the_training_record(folder: Path) -> str:
    path = saved(folder)
    for table in ("sources", "seen"):
        sql(path, f"DELETE FROM {table}")  # noqa: S608 - constant names
    digest_again(path)
    return told(lambda: level(path))


@attempt(
    "The same, and name a key that is nowhere, so that no seal can be checked",
    before="exact",
    now="memory",
)
def remove_the_training_record_and_name_an_unknown_key(folder: Path) -> str:
    path = saved(folder)
    for table in ("sources", "seen"):
        sql(path, f"DELETE FROM {table}")  # noqa: S608 - constant names
    if not (path / "config.json").exists():
        sql(path, "UPDATE model SET key_id = '0000000000000000'")
    digest_again(path)
    return told(lambda: level(path))


@attempt(
    "The same, and write the whole model in the format that had no seal",
    before="exact",
    now="memory",
)
def remove_the_training_record_and_go_back_a_format(folder: Path) -> str:
    path = saved(folder)
    if not (path / "config.json").exists():
        from store.format_1 import save_as_format_1

        model = load(path)
        shutil.rmtree(path)
        save_as_format_1(model, path, generation=77)
    for table in ("sources", "seen"):
        sql(path, f"DELETE FROM {table}")  # noqa: S608 - constant names
    digest_again(path)
    return told(lambda: level(path))


@attempt(
    "Say in the file that what the weights saw was declared",
    before="exact",
    now="refused",
)
def turn_what_was_recorded_into_a_declaration(folder: Path) -> str:
    path = saved(folder)
    sql(path, "UPDATE sources SET basis = 'declared', name = 'ImageNet-1k'")
    digest_again(path)
    return told(lambda: level(path))


@attempt(
    "Put the training record of a model that was trained on other rows in",
    before="exact",
    now="refused",
)
def take_the_training_record_of_another_model(folder: Path) -> str:
    path = saved(folder)
    other = SPMClassifier(epochs=1, random_state=0)
    other.fit(X + 9, Y, ids=[f"other-{row}" for row in IDS]).save(folder / "other")
    with contextlib.closing(sqlite3.connect(path / "rows.sqlite", isolation_level=None)) as db:
        db.execute("ATTACH ? AS other", (str(folder / "other" / "rows.sqlite"),))
        columns = "place, key_id, mark"
        first = "(SELECT generation FROM rows LIMIT 1), " if (path / "config.json").exists() else ""
        db.execute("DELETE FROM seen")
        db.execute(f"INSERT INTO seen SELECT {first}{columns} FROM other.seen")  # noqa: S608
    digest_again(path)
    return told(lambda: level(path))


@attempt(
    "Take the tombstones out of the file and store the forgotten row again",
    before="live",
    now="refused",
)
def remove_the_tombstones(folder: Path) -> str:
    path = saved(folder)
    forget(path, 3)
    sql(path, "DELETE FROM tombstones")
    digest_again(path)

    def again() -> str:
        model = load(path).remember(X[3:4], [0], ids=[3])
        return "live" if 3 in model.memory else "gone"

    return told(again)


@attempt(
    "Let a trigger store each row again that is deleted from the file",
    before="saved, and the row is in the file",
    now="refused",
)
def let_a_trigger_undo_a_forget(folder: Path) -> str:
    path = saved(folder)
    first = "old.generation + 0, " if (path / "config.json").exists() else ""
    values = f"{first}old.serial, old.id, old.label, old.groups, old.content, old.embedding"
    again = f"INSERT INTO rows VALUES ({values})"  # noqa: S608 - constant names
    sql(path, f"CREATE TRIGGER back AFTER DELETE ON rows BEGIN {again}; END")

    def forgotten() -> str:
        forget(path, 3)
        return f"saved, and the row is {'in' if _is_stored(path, 3) else 'not in'} the file"

    return told(forgotten)


def _is_stored(path: Path, row: int) -> bool:
    with contextlib.closing(sqlite3.connect(path / "rows.sqlite")) as db:
        return bool(db.execute("SELECT id FROM rows WHERE id = ?", (f"i:{row}",)).fetchall())


@attempt(
    "Add a table to the file in which ids of forgotten rows are noted",
    before="accepted",
    now="refused",
)
def add_a_table(folder: Path) -> str:
    path = saved(folder)
    sql(path, "CREATE TABLE forgotten (id TEXT)")
    return told(lambda: load(path) and "accepted")


@attempt(
    "Change a setting in the saved configuration",
    before="rows",
    now="refused",
)
def change_the_configuration(folder: Path) -> str:
    path = saved(folder)

    def change(config: dict[str, Any]) -> None:
        config["parameters"]["reduction"] = "rows"

    configure(path, change)
    return told(lambda: load(path).reduction)


@attempt(
    "Take a cache off the list of copies, so that forgetting does not reach it",
    before="1 embedding is kept",
    now="refused",
)
def take_a_cache_off_the_list_of_copies(folder: Path) -> str:
    from erasable.store import EmbeddingCache

    model = SPMClassifier("identity", embedding_cache=folder / "cache")
    model.remember(X, Y, ids=IDS).save(folder / "model")
    path = folder / "model"

    def change(config: dict[str, Any]) -> None:
        config["parameters"]["embedding_cache"] = None

    configure(path, change)
    if (path / "copies.json").exists():
        text = (path / "copies.json").read_text().replace("embeddings", "embeddingz")
        (path / "copies.json").write_text(text)
    else:
        sql(path, "DELETE FROM copies")

    def kept() -> str:
        forget(path, 3)
        return f"{EmbeddingCache(folder / 'cache').held([b'i:3'])} embedding is kept"

    return told(kept)


@attempt(
    "Change the input digest of a row in the file while a process has the model loaded, and save",
    before="accepted",
    now="refused",
)
def change_a_content_between_load_and_save(folder: Path) -> str:
    path = saved(folder)
    model = load(path)
    sql(path, "UPDATE rows SET content = x'00' WHERE id = 'i:3'")

    def save() -> str:
        model.save(path)
        return "accepted" if load(path) else ""

    return told(save)


@attempt(
    "Let a row that the weights saw and one that they did not change inputs in the file, forget it",
    before="exact",
    now="refused",
)
def let_rows_change_inputs(folder: Path) -> str:
    path, there = folder / "model", ("copy", "clean")
    model = SPMClassifier(epochs=1, random_state=0).fit(X, Y, ids=IDS)
    model.remember(X[:2] + np.array([[0], [5]]), Y[:2], ids=there).save(path)
    with contextlib.closing(sqlite3.connect(path / "rows.sqlite")) as db, db:
        query = "SELECT serial, content FROM rows WHERE id IN ('s:copy', 's:clean') ORDER BY serial"
        (one, mine), (other, theirs) = db.execute(query).fetchall()
        for values in ((-1, mine, one), (one, mine, other), (other, theirs, -1)):
            db.execute("UPDATE rows SET serial = ?, content = ? WHERE serial = ?", values)
    return told(lambda: load(path).forget(ids=["copy"], dry_run=True).level)


@attempt(
    "Lose the key of a model that remembers rows and was never trained",
    before="exact",
    now="memory",
)
def lose_the_key(folder: Path) -> str:
    SPMClassifier("identity").remember(X, Y, ids=IDS).save(folder / "model")
    for key in keys_folder().glob("*.key"):
        key.unlink()
    keyring._known, keyring._active = {}, None
    return told(lambda: level(folder / "model"))


@attempt(
    "Save a model whose key was lost, load it again, and ask for the level",
    before="exact",
    now="memory",
)
def save_a_model_whose_key_was_lost(folder: Path) -> str:
    SPMClassifier("identity").remember(X, Y, ids=IDS).save(folder / "model")
    for key in keys_folder().glob("*.key"):
        key.unlink()
    keyring._known, keyring._active = {}, None
    load(folder / "model").save(folder / "model")
    return told(lambda: level(folder / "model"))


# -- saves that are interrupted -------------------------------------------------------------------


class _Refusing(sqlite3.Connection):
    """Cannot commit what it has written to a model."""

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:  # type: ignore[override]
        if statement == "COMMIT" and self.total_changes and self._is_model():
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(statement, *values)

    def _is_model(self) -> bool:
        [(_, _, path)] = super().execute("PRAGMA database_list").fetchall()
        return Path(path).name == "rows.sqlite"


@attempt(
    "Change a setting, forget a row, and let the commit of the save fail",
    before="rows, and live: a mixture",
    now="prototypes, and live",
)
def let_the_commit_of_a_changed_setting_fail(folder: Path) -> str:
    path = saved(folder)
    model = load(path).set_params(reduction="rows")
    model.forget(ids=[3])
    with connecting(lambda *_: None, factory=_Refusing):
        told(lambda: model.save(path))
    found = load(path)
    row = "live" if 3 in found.memory else "gone"
    mixture = ": a mixture" if (found.reduction == "rows") == (row == "live") else ""
    return f"{found.reduction}, and {row}{mixture}"


@attempt(
    "Put another model in the place of one that somebody is reading",
    before="'Nothing was changed': false",
    now="'Nothing was changed': true",
)
def replace_a_model_that_somebody_reads(folder: Path) -> str:
    path = saved(folder)
    before = load(path).weights_digest
    other = SPMClassifier(epochs=1, random_state=1).fit(X, Y, ids=IDS)
    reader = sqlite3.connect(path / "rows.sqlite", isolation_level=None)
    opened: list[str] = []

    def read_meanwhile(_: sqlite3.Connection, file: str) -> None:
        opened.append(file)
        if len(opened) == 2:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM rows").fetchall()

    said = ""
    with connecting(read_meanwhile, timeout=0):
        try:
            other.save(path, overwrite=True)
        except ErasableError as error:
            said = "Nothing was changed" if "Nothing was changed" in str(error) else "?"
    reader.close()
    return f"{said!r}: {str(load(path).weights_digest == before).lower()}"


@attempt(
    "Save to a disk that is full",
    before="damaged",
    now="full",
)
def save_to_a_full_disk(folder: Path) -> str:
    path = saved(folder)
    model = load(path)
    model.forget(ids=[3])
    model.remember(rng.normal(size=(5000, 4)), [0] * 5000)

    def shrink(db: sqlite3.Connection, file: str) -> None:
        if file.endswith("rows.sqlite"):
            db.execute("PRAGMA max_page_count = 20")

    with connecting(shrink):
        try:
            model.save(path)
        except ErasableError as error:
            return "damaged" if "damaged" in str(error) else "full" if "full" in str(error) else "?"
    return "saved"


# -- files that are made to break the reader ------------------------------------------------------


@attempt(
    "Give a configuration of 200,000 brackets",
    before="RecursionError",
    now="refused",
)
def give_a_deep_configuration(folder: Path) -> str:
    path = saved(folder)
    if (path / "config.json").exists():
        (path / "config.json").write_text("[" * 200_000)
    else:
        from store.format_1 import save_as_format_1

        shutil.rmtree(path)
        save_as_format_1(SPMClassifier("identity").remember(X, Y), path)
        (path / "config.json").write_text("[" * 200_000)
    return told(lambda: load(path))


@attempt(
    "Say that the rows are those of generation 10**30",
    before="OverflowError",
    now="refused",
)
def give_a_generation_that_no_file_can_have(folder: Path) -> str:
    path = saved(folder)
    if not (path / "config.json").exists():
        from store.format_1 import save_as_format_1

        shutil.rmtree(path)
        save_as_format_1(SPMClassifier("identity").remember(X, Y), path)
    configure(path, lambda config: config.update(generation=10**30))
    return told(lambda: load(path))


@attempt(
    "Say that the model was made from a data set of which nothing is known, and ask for info",
    before="KeyError",
    now="refused",
)
def give_an_empty_record_of_the_data(folder: Path) -> str:
    from erasable.cli._info import info

    path = saved(folder)
    if not (path / "config.json").exists():
        from store.format_1 import save_as_format_1

        shutil.rmtree(path)
        save_as_format_1(SPMClassifier("identity").remember(X, Y), path)
    configure(path, lambda config: config.update(data={}))
    return told(lambda: info(path))


@attempt(
    "Make 'unet' in a model's directory a link to another folder, and save",
    before="their file is gone",
    now="their file is there",
)
def let_a_link_lead_a_deletion_elsewhere(folder: Path) -> str:
    path = saved(folder)
    theirs = folder / "theirs"
    theirs.mkdir()
    (theirs / ".config.json.0123abcd.tmp").write_text("mine")
    os.symlink(theirs, path / "unet")
    told(lambda: forget(path, 3))
    return f"their file is {'there' if list(theirs.iterdir()) else 'gone'}"


# -- many who save --------------------------------------------------------------------------------


def _write_all_the_time(path: str, number: int, is_over: Any) -> None:
    count = 0
    while not is_over.is_set():
        with contextlib.suppress(ErasableError):
            model = load(path)
            model.remember(rng.normal(size=(1, 4)), [0], ids=[f"w{number}-{count}"])
            model.save(path)
        count += 1


@attempt(
    "Forget 24 rows from the command line while four processes save all the time",
    before="refused",
    now="24 forgotten",
    is_slow=True,
)
def forget_beside_others_who_save(folder: Path) -> str:
    from erasable.cli._forget import forget as forget_from_command_line

    path = saved(folder)
    context = multiprocessing.get_context("fork")
    is_over = context.Event()
    writers = [
        context.Process(target=_write_all_the_time, args=(str(path), number, is_over))
        for number in range(4)
    ]
    for writer in writers:
        writer.start()

    def forget_all() -> str:
        for row in range(24):
            with contextlib.redirect_stdout(None):
                forget_from_command_line(path, ids=[str(row)])
        return f"{sum(row not in load(path).memory for row in range(24))} forgotten"

    try:
        return told(forget_all)
    finally:
        is_over.set()
        for writer in writers:
            writer.join()


# -- the ledger beside the keys ----------------------------------------------------------------


def ledger_of(path: Path) -> Path:
    return keys_folder() / "models" / f"{load(path).places_[path].identity}.sqlite"


@contextlib.contextmanager
def failing(owner: type, name: str) -> Iterator[None]:
    """Let a method do its work and fail after that, as where a disk is full."""
    method = getattr(owner, name)

    def fail(*given: Any, **named: Any) -> None:
        if name != "settle":
            method(*given, **named)
        raise StoreError("The disk is full.")

    setattr(owner, name, fail)
    try:
        yield
    finally:
        setattr(owner, name, method)


@attempt(
    "Forget a row while the ledger cannot be written to at the end, let the next save fail, put an "
    "older copy back",
    before="live",
    now="refused",
)
def lose_an_intent_that_was_committed(folder: Path) -> str:
    path = saved(folder)
    shutil.copytree(path, folder / "older")
    with failing(Ledger, "settle"):
        change(path, lambda model: model.forget(ids=[3]))
    with failing(Change, "write"), contextlib.suppress(StoreError):
        change(path, lambda model: model.forget(ids=[4]))
    put_back(folder / "older", path)

    return told(lambda: live(path))


@attempt(
    "Put the ledger of another model in the place of a model's, and catch up as one is told to",
    before="58 rows",
    now="refused",
)
def catch_up_by_the_ledger_of_another_model(folder: Path) -> str:
    path, other = saved(folder), saved(folder / "other")
    forget(other, 3)
    forget(other, 4)
    shutil.copy(ledger_of(other), ledger_of(path))

    return told(lambda: f"{len(load(path, replay=True).memory)} rows")


@attempt(
    "Put an older ledger back, load the model, put an older copy of the model back, too",
    before="live, and nothing was said",
    now="refused, and it was said",
)
def put_an_older_ledger_back(folder: Path) -> str:
    path = saved(folder)
    shutil.copytree(path, folder / "older")
    shutil.copy(ledger_of(path), folder / "ledger")
    forget(path, 3)
    shutil.copy(folder / "ledger", ledger_of(path))
    said = any("ledger" in doubt for doubt in load(path).doubts_)
    put_back(folder / "older", path)

    return f"{told(lambda: live(path))}, and {'it' if said else 'nothing'} was said"


@attempt(
    "Change a tombstone in the ledger, put an older copy back, and catch up",
    before="live",
    now="refused",
)
def change_a_tombstone_in_the_ledger(folder: Path) -> str:
    path = saved(folder)
    shutil.copytree(path, folder / "older")
    forget(path, 3)
    with contextlib.closing(sqlite3.connect(ledger_of(path), isolation_level=None)) as db:
        db.execute("UPDATE tombstones SET mark = zeroblob(16)")
    put_back(folder / "older", path)

    return told(lambda: live(path, replay=True))


@attempt(
    "Forget a row, drop its tombstones, put an older copy back, read what is said, and catch up",
    before="'0 rows were forgotten since', live, and nothing was said",
    now="refused without a number, live, and it was said",
)
def catch_up_without_tombstones(folder: Path) -> str:
    path = saved(folder)
    shutil.copytree(path, folder / "older")
    forget(path, 3)
    change(path, lambda model: model.memory.drop_tombstones(before=None))
    put_back(folder / "older", path)
    try:
        load(path)
    except StoreError as error:
        is_wrong = "0 rows were forgotten since" in str(error)
    model = load(path, replay=True)
    said = any("tombstones" in doubt.lower() for doubt in model.doubts_)
    refusal = "'0 rows were forgotten since'" if is_wrong else "refused without a number"
    there = "live" if 3 in model.memory else "gone"

    return f"{refusal}, {there}, and {'it' if said else 'nothing'} was said"


@attempt(
    "Remove the ledger, forget a row without loading the model before, and read what is said",
    before="nothing was said",
    now="it was said",
)
def change_without_a_ledger(folder: Path) -> str:
    path, lines = saved(folder), []
    ledger_of(path).unlink()
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("erasable")
    log.addHandler(handler)
    try:
        change(path, lambda model: model.forget(ids=[3]))
    finally:
        log.removeHandler(handler)

    return f"{'it' if any('no ledger' in line for line in lines) else 'nothing'} was said"


@attempt(
    "Replace a model by one that forgot a row while the ledger cannot be written to at the end, "
    "put the replaced one back",
    before="live, and nothing was said",
    now="live, and it was said",
)
def put_a_replaced_model_back(folder: Path) -> str:
    path = saved(folder)
    shutil.copytree(path, folder / "older")
    other = SPMClassifier("random_features", random_state=0).remember(X, Y, ids=IDS)
    other.forget(ids=[3])
    with failing(Ledger, "settle"):
        other.save(path, overwrite=True)
    put_back(folder / "older", path)
    model = load(path)
    said = "it" if any("replaced" in doubt for doubt in model.doubts_) else "nothing"

    return f"{'live' if 3 in model.memory else 'gone'}, and {said} was said"
