"""From noise to images: time steps, and what each does."""

import pytest
import torch

from diffusion.references import one_step
from erasable.diffusion import Sampling, denoise, make_scheduler
from erasable.diffusion._noise import drawing_times

NOISE = torch.randn((3, 1, 4, 4), generator=torch.Generator().manual_seed(0))


def predict(images, timestep, part):
    """See noise, and images far beyond −1 to 1."""
    return 0.3 * images + torch.sin(3 * images)


def test_any_number_of_steps_starts_at_noise_and_ends_near_an_image():
    for steps in range(1, 1001):
        times = drawing_times(steps)
        gaps = [early - late for early, late in zip(times, [*times[1:], -1], strict=True)]
        assert len(times) == steps
        assert times[0] == 999
        assert {1000 // steps, -(-1000 // steps)} >= set(gaps)


@pytest.mark.parametrize("steps", [1, 4, 25, 30, 50, 61, 200, 600])
def test_steps_are_as_the_formula_says(steps):
    found = denoise(predict, make_scheduler(), NOISE, Sampling(steps=steps, batch_size=2))
    image, times = NOISE, drawing_times(steps)
    for timestep, following in zip(times, [*times[1:], -1], strict=True):
        image = one_step(image, predict(image, timestep, ...), timestep, following)
    torch.testing.assert_close(found, (image + 1) / 2, atol=1e-4, rtol=0)


@pytest.mark.parametrize("steps", [1, 10, 50, 250])
def test_where_steps_divide_those_of_training_diffusers_draws_the_same(steps):
    schedule, image = make_scheduler(), NOISE
    schedule.set_timesteps(steps)
    for timestep in schedule.timesteps:
        noise = predict(image, timestep, ...)
        step = schedule.step(noise, timestep, image, eta=0.0, use_clipped_model_output=True)
        image = step.prev_sample
    found = denoise(predict, make_scheduler(), NOISE, Sampling(steps=steps))
    torch.testing.assert_close(found, (image + 1) / 2, atol=0, rtol=0)
