"""What figures were measured on."""

import platform
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
import torch

from erasable._version import __version__

_PACKAGE = Path(__file__).resolve().parents[1]
_AT_COMMIT = " at commit "


def machine() -> str:
    """Describe processor, threads and versions in one line.

    The commit is that of the first call: code that is changed later is not what runs.
    """
    return (
        f"{_processor()}, {torch.get_num_threads()} threads, {platform.system()}; Python "
        f"{platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}, "
        f"erasable {__version__}{_commit_at_start()}"
    )


def machines(names: Iterable[str]) -> list[str]:
    """Return what runs were made on, each once; commits alone do not make two lines.

    Args:
        names: What :func:`machine` said for each run.
    """
    commits: dict[str, dict[str, None]] = {}
    for name in names:
        base, _, at = name.partition(_AT_COMMIT)
        commits.setdefault(base, {})[at] = None
    lines = []
    for base, found in commits.items():
        known = [at for at in found if at]
        word = _AT_COMMIT if len(known) == 1 else " at commits "
        lines.append(f"{base}{word}{', '.join(known)}" if known else base)
    return lines


@cache
def _commit_at_start() -> str:
    return commit()


def commit(package: Path = _PACKAGE) -> str:
    """Return `` at commit …`` if the package runs from its repository, else nothing.

    Changes of the code that are not committed are marked ``-dirty``; pages and runs, which tables
    themselves write, do not count.

    Args:
        package: Folder of the code.
    """
    try:
        name = _git(package, "rev-parse", "--short", "HEAD")
        is_dirty = bool(_git(package, "status", "--porcelain", "--", "."))
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{_AT_COMMIT}{name}{'-dirty' if is_dirty else ''}"


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    found = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - constant words
    return found.stdout.strip()


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
