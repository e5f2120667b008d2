"""Run every benchmark and write one page with the machine on it: ``make bench``."""

import argparse
import platform
import subprocess
import time
from pathlib import Path

import numpy as np
import torch

import erasable
import forget
import imports
import predict
import train_step

PARTS = {
    "Forgetting": forget,
    "Predicting": predict,
    "Training": train_step,
    "Importing": imports,
}


def machine() -> str:
    """Describe what the figures were measured on."""
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return (
        f"{cpu}, {torch.get_num_threads()} threads, {platform.system()}; Python "
        f"{platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}, "
        f"erasable {erasable.__version__} at commit {commit()}"
    )


def commit() -> str:
    """Return the commit of the working tree, marked if it has changes."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - constant
    return found.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="Markdown file to write.")
    parser.add_argument("--only", choices=[name.lower() for name in PARTS], help="One part.")
    arguments = parser.parse_args()
    page = ["# Speed", "", f"Measured by `make bench` on {machine()}.", ""]
    for name, part in PARTS.items():
        if arguments.only and name.lower() != arguments.only:
            continue
        start = time.perf_counter()
        print(f"{name} …", flush=True)
        summary = (part.__doc__ or "").strip()
        page += [f"## {name}", "", summary, "", *part.measure(), ""]
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    text = "\n".join(page)
    print(text)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(text)


if __name__ == "__main__":
    main()
