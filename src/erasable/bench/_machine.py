"""What figures were measured on."""

import platform
import subprocess
from pathlib import Path

import numpy as np
import torch

from erasable._version import __version__


def machine() -> str:
    """Describe processor, threads and versions in one line."""
    return (
        f"{_processor()}, {torch.get_num_threads()} threads, {platform.system()}; Python "
        f"{platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}, "
        f"erasable {__version__}{commit()}"
    )


def commit() -> str:
    """Return `` at commit …`` if the package runs from its repository, else nothing.

    Changes that are not committed are marked ``-dirty``.
    """
    here = Path(__file__).resolve().parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - constant
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" at commit {found.stdout.strip()}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
