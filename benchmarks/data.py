"""Loading a data set of CIFAR-10's size from the cache, and decoding images from files.

Random pixels in a temporary folder; a fresh process per number, medians over 5 runs. Memory is what
the process grows by, against the bytes of the pixels: after loading, and after reading every pixel
once, when the system may still hold all of them.
"""

import dataclasses
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from erasable.data._cache import write_entry
from erasable.data._layouts import Decoded, decoded_digest
from erasable.data._specs import CIFAR10

RUNS = 5
IMAGES = 400
LOAD = """
import dataclasses, resource, sys, time
from pathlib import Path
from erasable.data import load_dataset
from erasable.data._specs import CIFAR10, KNOWN
def grown():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
KNOWN["cifar10"] = dataclasses.replace(CIFAR10, digest=sys.argv[2])
before, start = grown(), time.perf_counter()
dataset = load_dataset("cifar10", cache=sys.argv[1])
seconds, loaded = time.perf_counter() - start, grown()
dataset.train.X.sum(), dataset.test.X.sum()
print(seconds, (loaded - before) / CIFAR10.size, (grown() - before) / CIFAR10.size)
"""
DECODE = """
import sys, time
from erasable.data import load_dataset
images = load_dataset(sys.argv[1], test_share=0).train.X
images[:8]
start = time.perf_counter()
images[:]
print(len(images) / (time.perf_counter() - start))
"""


def medians(code: str, *words: str) -> list[float]:
    """Return the medians of what ``code`` prints, over fresh interpreters."""
    rounds = [
        [float(word) for word in found.stdout.split()]
        for found in (
            subprocess.run(  # noqa: S603 - our own interpreter
                [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
            )
            for _ in range(RUNS)
        )
    ]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def fill_cache(folder: Path) -> str:
    """Write a data set of CIFAR-10's size and return its digest."""
    rng = np.random.default_rng(0)
    data = {
        split: Decoded(
            rng.integers(256, size=(rows, *CIFAR10.shape), dtype=np.uint8),
            rng.integers(10, size=rows, dtype=np.uint8),
        )
        for split, rows in CIFAR10.rows.items()
    }
    spec = dataclasses.replace(CIFAR10, digest=decoded_digest(data))
    write_entry(spec, data, source="random", root=folder)
    return spec.digest


def fill_folder(folder: Path) -> None:
    """Write photographs of ImageNet's usual size: smooth, so that they pack like photographs."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for number in range(IMAGES):
        coarse = rng.integers(256, size=(24, 32, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((500, 375)).save(folder / f"{number}.jpg", quality=90)


def measure() -> list[str]:
    """Return the lines of a Markdown table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        digest = fill_cache(folder / "cache")
        seconds, loaded, read = medians(LOAD, str(folder / "cache"), digest)
        fill_folder(folder / "images" / "noise")
        (rate,) = medians(DECODE, str(folder / "images"))
    return [
        "| what | value |",
        "|---|---:|",
        f"| load 60,000 images of 32×32×3 from the cache | {seconds:.3f} s |",
        f"| memory after loading, against the pixels | {loaded:.2f} × |",
        f"| memory after reading every pixel, against the pixels | {read:.2f} × |",
        f"| JPEG files of 500×375 decoded to 224×224 | {rate:.0f} per second |",
    ]


if __name__ == "__main__":
    print("\n".join(measure()))
