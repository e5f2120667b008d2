"""Time to import the package, and what touching the classifier adds to torch and scikit-learn.

Each case is a fresh interpreter, the cases in turn; medians, and the median of the differences
within a round, over 9 rounds after one to warm the file cache.
"""

import statistics
import subprocess
import sys

RUNS = 9
TEMPLATE = "import time; start = time.perf_counter(); {code}; print(time.perf_counter() - start)"
CASES = {
    "import erasable": "import erasable",
    "erasable.SPMClassifier": "import erasable; erasable.SPMClassifier",
    "torch and scikit-learn alone": "import torch, sklearn.base, sklearn.utils.validation, "
    "sklearn.utils.multiclass",
}


def seconds(code: str) -> float:
    """Return the time of running ``code`` in a fresh interpreter."""
    command = [sys.executable, "-c", TEMPLATE.format(code=code)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own interpreter
    return float(found.stdout)


def measure() -> list[str]:
    """Return the lines of a Markdown table."""
    rounds = [{name: seconds(code) for name, code in CASES.items()} for _ in range(RUNS + 1)][1:]
    lines = ["| what | seconds |", "|---|---:|"]
    for name in CASES:
        lines.append(f"| {name} | {statistics.median(found[name] for found in rounds):.3f} |")
    both = ("erasable.SPMClassifier", "torch and scikit-learn alone")
    extra = statistics.median(found[both[0]] - found[both[1]] for found in rounds)
    return [*lines, "", f"Touching the classifier costs {extra:+.3f} s over its libraries."]


if __name__ == "__main__":
    print("\n".join(measure()))
