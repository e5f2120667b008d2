"""Time to import the package, and what touching the classifier adds to torch and scikit-learn.

Each case is a fresh interpreter; median of 7 runs after one to warm the file cache.
"""

import statistics
import subprocess
import sys

RUNS = 7
TEMPLATE = "import time; start = time.perf_counter(); {code}; print(time.perf_counter() - start)"
CASES = {
    "import erasable": "import erasable",
    "erasable.SPMClassifier": "import erasable; erasable.SPMClassifier",
    "torch and scikit-learn alone": "import torch, sklearn.base, sklearn.utils.validation, "
    "sklearn.utils.multiclass",
}


def seconds(code: str) -> float:
    """Return the median time of running ``code`` in a fresh interpreter."""
    command = [sys.executable, "-c", TEMPLATE.format(code=code)]
    times = [
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603 - our own interpreter
        for _ in range(RUNS + 1)
    ]
    return statistics.median(times[1:])


def measure() -> list[str]:
    """Return the lines of a Markdown table."""
    found = {name: seconds(code) for name, code in CASES.items()}
    lines = ["| what | seconds |", "|---|---:|"]
    lines += [f"| {name} | {value:.3f} |" for name, value in found.items()]
    extra = found["erasable.SPMClassifier"] - found["torch and scikit-learn alone"]
    return [*lines, "", f"Touching the classifier costs {extra:+.3f} s over its libraries."]


if __name__ == "__main__":
    print("\n".join(measure()))
