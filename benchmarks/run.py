"""Run every benchmark and write one page with the machine on it: ``make bench``."""

import argparse
import time
from pathlib import Path

import forget
import imports
import predict
import train_step
from erasable.bench import machine

PARTS = {
    "Forgetting": forget,
    "Predicting": predict,
    "Training": train_step,
    "Importing": imports,
}


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
