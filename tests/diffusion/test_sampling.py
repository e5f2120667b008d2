"""From noise to images: time steps, and what each does."""

import pytest
import torch

from diffusion.references import one_step
from erasable.diffusion import Sampling, denoise, make_scheduler


def times_of(steps):
    """Return the time steps that a number of steps goes through."""
    seen = []

    def predict(images, timestep, part):
        seen.append(int(timestep))
        return images

    denoise(predict, make_scheduler(), torch.zeros(1, 1, 2, 2), Sampling(steps=steps))
    return seen


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 25, 50, 333, 501, 600, 999, 1000])
def test_any_number_of_steps_starts_at_noise_and_ends_near_an_image(steps):
    times = times_of(steps)
    assert times[0] == 999
    assert len(times) == steps
    assert times == sorted(set(times), reverse=True)
    assert times[-1] < 1000 / steps


@pytest.mark.parametrize("steps", [1, 4, 25, 50, 200])
def test_steps_are_as_the_formula_says(steps):
    noise = torch.randn((3, 1, 4, 4), generator=torch.Generator().manual_seed(0))

    def predict(images, timestep, part):
        return 0.3 * images + torch.sin(3 * images)  # sees images far beyond −1 to 1

    found = denoise(predict, make_scheduler(), noise, Sampling(steps=steps, batch_size=2))
    image, times = noise, times_of(steps)
    for timestep in times:
        image = one_step(image, predict(image, timestep, ...), timestep, timestep - 1000 // steps)
    torch.testing.assert_close(found, (image + 1) / 2, atol=1e-4, rtol=0)
