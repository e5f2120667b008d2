"""Drawing, written as its formulas say."""

import numpy as np
import torch

KEPT = torch.from_numpy(np.cumprod(1 - np.linspace(1e-4, 0.02, 1000)))
"""Share of an image's variance that is left after each step of noise."""


def one_step(image, noise, timestep, next_timestep):
    """Clip the image that is seen, take the noise anew, and go on to a time step; −1 is no noise.

    Args:
        image: As it is at a time step.
        noise: What is seen in it.
        timestep: The time step.
        next_timestep: The one to go on to.
    """
    kept = KEPT[int(timestep)].item()
    clean = ((image - (1 - kept) ** 0.5 * noise) / kept**0.5).clamp(-1, 1)
    rest = (image - kept**0.5 * clean) / (1 - kept) ** 0.5
    kept = KEPT[int(next_timestep)].item() if next_timestep >= 0 else 1.0
    return kept**0.5 * clean + (1 - kept) ** 0.5 * rest
