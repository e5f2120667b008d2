"""The package as a whole: what importing it costs, and what it offers."""

import subprocess
import sys

import pytest

import erasable

HEAVY = ("torch", "sklearn", "numpy", "lightning_fabric", "matplotlib", "jinja2")


def modules_after(statement):
    """Return the top-level modules that a new process has after a statement."""
    code = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_heavy():
    assert modules_after("import erasable") & set(HEAVY) == set()


def test_the_command_line_starts_without_anything_heavy():
    assert modules_after("import erasable.cli") & set(HEAVY) == set()


def test_touching_a_name_loads_what_it_needs():
    assert "torch" in modules_after("import erasable; erasable.SPMClassifier")


def test_the_public_names_are_few_and_known():
    assert sorted(erasable.__all__) == [
        "KNNClassifier",
        "Memory",
        "ParametricClassifier",
        "Receipt",
        "SPMClassifier",
        "SPMGenerator",
        "Training",
        "__version__",
        "audit",
        "convert",
        "copy_model",
        "declare",
        "load",
    ]


@pytest.mark.parametrize("name", erasable.__all__)
def test_every_public_name_is_there(name):
    assert getattr(erasable, name) is not None


def test_dir_lists_the_public_names():
    assert set(erasable.__all__) <= set(dir(erasable))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Magic'"):
        _ = erasable.Magic


def test_the_version_is_that_of_the_distribution():
    from importlib.metadata import version

    assert version("erasable") == erasable.__version__


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "erasable", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"erasable {erasable.__version__}\n"
