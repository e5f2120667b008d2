"""Run every benchmark and write one page with the machine on it: ``make speed``.

Each part runs in a process of its own, so that none finds the memory as another one left it.
"""

import argparse
import ast
import subprocess
import sys
import time
from pathlib import Path

from erasable.bench import machine

PARTS = {
    "Forgetting": "forget",
    "Predicting": "predict",
    "Views": "views",
    "Threads": "threads",
    "Neighbours": "neighbours",
    "Queries at once": "query_blocks",
    "Quantised search": "search",
    "Gaussian": "gaussian",
    "Training": "train_step",
    "Training modes": "training_modes",
    "Encoding": "encode",
    "Data": "data",
    "The unlearning benchmark": "harness",
    "Additive fusion": "additive",
    "Drawing images": "sampling",
    "Training step of the generator": "denoise_step",
    "Half precision": "half_precision",
    "Importing": "imports",
}
HERE = Path(__file__).parent


def section(name: str, script: Path) -> list[str]:
    """Run a script and return its docstring and table under a heading."""
    start = time.perf_counter()
    print(f"{name} …", flush=True)
    command = [sys.executable, str(script)]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - our own scripts
    print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    summary = ast.get_docstring(ast.parse(script.read_text())) or ""
    return [f"## {name}", "", summary, "", found.stdout]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="Markdown file to write.")
    parser.add_argument("--only", choices=list(PARTS.values()), help="One part.")
    arguments = parser.parse_args()
    page = ["# Speed", "", f"Measured by `make speed` on {machine()}.", ""]
    for name, script in PARTS.items():
        if arguments.only in (None, script):
            page += section(name, HERE / f"{script}.py")
    text = "\n".join(page)
    print(text)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(text)


if __name__ == "__main__":
    main()
