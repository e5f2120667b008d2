"""A training run that the kernel kills: ``python -m training.killed_run RUN FOLDER PLACE``."""

import os
import signal
import sys
from pathlib import Path

from training.toy import RUNS, Acting


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def main():
    name, folder, place = sys.argv[1:]
    run = RUNS[name]()
    objective = run.objective
    if place == "step":
        objective = Acting(objective, 8, die)  # the second step of the third epoch
    if place == "rename":
        rename = Path.replace
        calls = []

        def replace(self, target):
            calls.append(target)
            if len(calls) == 3:  # the third checkpoint is written, but not yet in place
                die()
            return rename(self, target)

        Path.replace = replace
    run.go(Path(folder), objective=objective)


if __name__ == "__main__":
    main()
