import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from erasable.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPETS = [
    pytest.param(text, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, text in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]
PACKAGE = ROOT / "src" / "erasable"
FOLDERS = sorted(path for path in PACKAGE.iterdir() if path.is_dir() and path.name[0] != "_")


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_the_snippet_runs(snippet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(snippet, "snippet", "exec"), {"__name__": "snippet"})  # noqa: S102 - our own page


def test_the_readme_has_a_snippet():
    assert any("README" in param.id for param in SNIPPETS)


def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "index.html").is_file()


@pytest.mark.parametrize("name", sorted(get_command(app).commands))
def test_every_command_is_on_the_command_line_page(name):
    page = (ROOT / "docs" / "cli.md").read_text()
    assert re.search(rf"^\| `{name}\b", page, re.MULTILINE)


@pytest.mark.parametrize("target", ["demo", "test", "bench", "docs", "help"])
def test_the_target_that_the_pages_name_exists(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_every_decision_is_in_the_index():
    index = (ROOT / "docs" / "decisions" / "index.md").read_text()
    pages = (ROOT / "docs" / "decisions").glob("0*.md")
    assert [page.name for page in pages if f"({page.name})" not in index] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_folder_of_more_than_three_files_says_what_it_protects(folder):
    if len(list(folder.glob("*.py"))) > 3:
        assert "nvariant" in (folder / "README.md").read_text()


def test_no_page_has_a_place_left_to_fill_in():
    assert [page.name for page in PAGES if re.search(r"^[A-Z_]{5,}$", page.read_text(), re.M)] == []
