"""Time to import the package, and what touching the classifier adds to torch and scikit-learn.

Fresh interpreters; medians over 9 runs after one to warm the file cache.
"""

import statistics
import subprocess
import sys

RUNS = 9
LIBRARIES = "import torch, sklearn.base, sklearn.utils.validation, sklearn.utils.multiclass"
PACKAGE = """
import time
start = time.perf_counter()
import erasable
print(time.perf_counter() - start)
"""
CLASSIFIER = f"""
import time
start = time.perf_counter()
{LIBRARIES}
middle = time.perf_counter()
import erasable
erasable.SPMClassifier
print(middle - start, time.perf_counter() - middle)
"""


def medians(code: str) -> list[float]:
    """Return the medians of what ``code`` prints, over fresh interpreters."""
    command = [sys.executable, "-c", code]
    rounds = [
        [float(word) for word in found.stdout.split()]
        for found in (
            subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own interpreter
            for _ in range(RUNS + 1)
        )
    ]
    return [statistics.median(column) for column in zip(*rounds[1:], strict=True)]


def measure() -> list[str]:
    """Return the lines of a Markdown table."""
    (package,) = medians(PACKAGE)
    libraries, classifier = medians(CLASSIFIER)
    return [
        "| what | seconds |",
        "|---|---:|",
        f"| `import erasable` | {package:.3f} |",
        f"| torch and scikit-learn | {libraries:.3f} |",
        f"| after them, in the same process, `erasable.SPMClassifier` | {classifier:.3f} |",
    ]


if __name__ == "__main__":
    print("\n".join(measure()))
