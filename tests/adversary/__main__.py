"""Attack the library for a while: ``python -m adversary --minutes 60``; ``make attack`` does."""

import argparse
import os
import secrets
import sys
import tempfile
import time
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test


def attack(minutes: float, first: int) -> int:
    """Draw sequences until the time is over; print each seed before it is tried."""
    from adversary.sequences import Sequences

    start, number = time.monotonic(), 0
    while time.monotonic() - start < 60 * minutes:
        print(f"seed {first + number}, {(time.monotonic() - start) / 60:.1f} minutes", flush=True)
        machine = seed(first + number)(type("Seeded", (Sequences,), {}))
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=100,
                stateful_step_count=50,
                deadline=None,
                database=None,
                phases=[Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            ),
        )
        number += 1
    print(f"{number} seeds from {first}, 100 sequences of up to 50 steps each: no false word")
    return 0


def write_page(page: Path) -> None:
    """Replace the table at the end of a page by the attempts that there are."""
    from adversary.attempts import load_areas, table

    load_areas()
    found, head = table(), page.read_text()
    page.write_text(head[: head.index("\n## ") + 1] + found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="adversary", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--page", type=Path, help="write the table of attempts into a page instead")
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    given = parser.parse_args()
    if given.page is not None:
        write_page(given.page)
        sys.exit()
    with tempfile.TemporaryDirectory(prefix="erasable-keys-") as keys:
        os.environ["ERASABLE_KEYS"] = keys
        sys.exit(attack(given.minutes, given.seed))
