"""Record what the small tables and the demo say, and compare it with what another commit said.

Figures depend on the machine, so both files must come from one machine: write one, change the code,
compare. Times, and what depends on them or on where files lie, are left out.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TINY = "--data digits --preset tiny"
COMMANDS = {
    "demo": "demo --out {out}",
    "classes": f"tables cls_cifar {TINY} --seeds 2 --classes 2 --published",
    "random": f"tables cls_random {TINY} --seeds 2 --published",
    "sequence": f"tables sequence {TINY} --seeds 2 --published",
    "gnn": f"tables gnn {TINY} --seeds 2",
    "standard": f"tables std_cls {TINY} --seeds 1",
    "share": f"tables share {TINY} --seeds 1",
    "gap": f"tables gap {TINY} --seeds 1 --rows 200",
    "tradeoff": f"tables tradeoff {TINY} --seeds 1",
    "generation": f"tables std_ddpm {TINY}",
    "forgetting": f"tables ddpm {TINY} --class 3 --untuned",
    "erasediff": f"tables erasediff {TINY} --class 3 --untuned",
    "labels": f"tables label_perm {TINY} --class 3",
    "reminded": f"tables reminded {TINY}",
    "variants": f"tables variants {TINY} --seeds 1",
}
_LEFT_OUT = re.compile(r"second|time|ratio|commit|machine|folder|path|started|finished|_ms\b")


def settled(value: Any) -> Any:
    """Return a JSON value without what differs from run to run."""
    if isinstance(value, dict):
        return {k: settled(v) for k, v in value.items() if not _LEFT_OUT.search(k.lower())}
    return [settled(one) for one in value] if isinstance(value, list) else value


def said(words: str, folder: Path) -> Any:
    """Return what a command prints as JSON."""
    text = words.format(out=folder / "out")
    runs = f" --runs {folder / 'runs'}" if words.startswith("tables") else ""
    command = [sys.executable, "-m", "erasable", *f"{text}{runs} --json".split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if done.returncode:
        raise SystemExit(f"{text}: status {done.returncode}\n{done.stderr[-2000:]}")
    return settled(json.loads(done.stdout))


def differences(before: Any, after: Any, place: str = "") -> list[str]:
    """Name the places where two JSON values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = sorted({*before, *after})
        gone = object()
        return [
            line
            for name in names
            for line in differences(
                before.get(name, gone), after.get(name, gone), f"{place}/{name}"
            )
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [line for at, (a, b) in pairs for line in differences(a, b, f"{place}/{at}")]
    return [] if before == after else [f"{place}: {before!r:.80} → {after!r:.80}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="Where the record is written.")
    parser.add_argument("--against", type=Path, help="An earlier record.")
    parser.add_argument("--only", nargs="*", choices=list(COMMANDS), help="Some of the commands.")
    arguments = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.only or COMMANDS:
            print(f"{name} …", file=sys.stderr, flush=True)
            found[name] = said(COMMANDS[name], Path(folder))
    arguments.file.write_text(json.dumps(found, indent=1, sort_keys=True))
    if arguments.against:
        known = json.loads(arguments.against.read_text())
        lines = differences({name: known.get(name) for name in found}, found)
        print("\n".join(lines[:50]) or "equal")
        raise SystemExit(bool(lines))


if __name__ == "__main__":
    main()
