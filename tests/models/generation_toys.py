"""Small images, and generators that learn them in seconds."""

import numpy as np

from erasable import SPMGenerator
from erasable.models import DDPM

SMALL = {"channels": (8, 16), "layers": 1, "batch_size": 32, "random_state": 0}
QUARTERS = ("a", "b", "c", "d")


def quarters(count=64, *, classes=QUARTERS, seed=0):
    """Return images of bytes (count, 8, 8), one bright quarter per class, and their labels."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 40, (count, 8, 8))
    places = np.arange(count) % len(classes)
    for image, place in zip(images, places, strict=True):
        down, right = divmod(int(place), 2)
        image[4 * down : 4 * down + 4, 4 * right : 4 * right + 4] += rng.integers(150, 215)
    return images.astype(np.uint8), [classes[place] for place in places]


def brightest(images):
    """Return which quarter is the brightest, of images (n, 1, 8, 8), as a label."""
    means = images[:, 0].reshape(-1, 2, 4, 2, 4).mean(axis=(2, 4)).reshape(-1, 4)
    return [QUARTERS[place] for place in means.argmax(axis=1)]


class Eye:
    """A classifier of `quarters` that needs no training."""

    def predict(self, X):
        return np.array(brightest(X))


def generator(count=64, *, ids=None, groups=None, **options):
    """Return a generator with rows and weights that were hardly trained."""
    model = SPMGenerator(**{**SMALL, "steps": 2, **options})
    return model.fit(*quarters(count), ids=ids, groups=groups)


def twin(count=64, **options):
    """Return an ordinary generator that was hardly trained."""
    return DDPM(**{**SMALL, "steps": 2, **options}).fit(*quarters(count))
