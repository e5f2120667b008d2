"""Which commit figures are said to come from, in repositories made for it."""

import subprocess

import pytest

from erasable.bench import _machine
from erasable.bench._machine import commit, machine, machines
from erasable.bench._runs import Runs


def git(folder, *words):
    settings = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *settings, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "src" / "package"
    folder.mkdir(parents=True)
    (folder / "code.py").write_text("1")
    (tmp_path / "page.md").write_text("1")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    return folder


def test_a_clean_package_is_named_by_its_commit(package):
    assert commit(package) == f" at commit {git(package, 'rev-parse', '--short', 'HEAD')}"


def test_pages_and_runs_that_tables_write_do_not_make_it_dirty(package, tmp_path):
    clean = commit(package)
    (tmp_path / "page.md").write_text("2")
    (tmp_path / "run.json").write_text("{}")
    assert commit(package) == clean


@pytest.mark.parametrize("name", ["code.py", "new.py"])
def test_changed_and_new_code_is_marked(package, name):
    clean = commit(package)
    (package / name).write_text("2")
    assert commit(package) == f"{clean}-dirty"


def test_deleted_code_is_marked(package):
    (package / "code.py").unlink()
    assert commit(package).endswith("-dirty")


def test_outside_a_repository_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit(tmp_path) == ""


def test_without_git_there_is_no_commit(package, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert commit(package) == ""


def test_a_machine_is_described_in_one_line():
    assert "\n" not in machine()
    assert "torch" in machine()


def test_runs_of_several_commits_on_one_machine_make_one_line():
    names = ["X, 2 threads at commit a", "X, 2 threads at commit b", "X, 2 threads at commit a"]
    assert machines(names) == ["X, 2 threads at commits a, b"]
    assert machines(names[:1]) == names[:1]
    assert machines(["X", "Y at commit a"]) == ["X", "Y at commit a"]


def test_a_run_names_the_commit_that_was_there_when_it_began(tmp_path, monkeypatch):
    names = iter([" at commit aaa", " at commit bbb"])
    monkeypatch.setattr(_machine, "commit", lambda: next(names))
    _machine._commit_at_start.cache_clear()
    runs = Runs(tmp_path)
    assert runs.run({"a": 1}, lambda _: {}).machine.endswith("aaa")
    assert machine().endswith("aaa")
    _machine._commit_at_start.cache_clear()
