"""Time to encode images with a frozen EfficientNet-Lite0, relative to the published network.

Both have the same published weights and see the same 64 images at 160 and 224 pixels, in
alternating order, over 5 rounds after one to warm up; the ratio is the median of the per-round
ratios. The published network runs as its package builds it, 64 images at a time.
"""

import statistics
import time
import warnings

import torch
from efficientnet_lite_pytorch import EfficientNet

from erasable.encoders import EfficientNetLite0, build_encoder
from erasable.encoders._published import read_published

IMAGES = 64
ROUNDS = 5


def seconds(network: torch.nn.Module, images: torch.Tensor) -> float:
    start = time.perf_counter()
    with torch.inference_mode():
        network(images)
    return time.perf_counter() - start


def main() -> None:
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    print("| pixels | published, images/s | ours, images/s | ratio |")
    print("|---:|---:|---:|---:|")
    for size in (160, 224):
        options = {"resolution": size}
        ours = build_encoder("efficientnet_lite0", (3, size, size), options=options).eval()
        ours.to(memory_format=torch.channels_last)
        theirs = EfficientNet.from_name("efficientnet-lite0", image_size=size)
        theirs.load_state_dict(read_published(EfficientNetLite0.published))
        theirs.eval()
        images = torch.rand(IMAGES, 3, size, size, generator=torch.Generator().manual_seed(0))
        pairs = [(seconds(theirs, images), seconds(ours, images)) for _ in range(ROUNDS + 1)][1:]
        theirs_s, ours_s = (statistics.median(times) for times in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"| {size} | {IMAGES / theirs_s:.0f} | {IMAGES / ours_s:.0f} | {ratio:.1f} |")


if __name__ == "__main__":
    main()
