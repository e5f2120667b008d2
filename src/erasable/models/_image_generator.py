"""What generators of images share: from labels to images, called as pipelines are."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from rich.console import Console
from rich.progress import Progress
from torch import Tensor

from erasable._extras import require_diffusion
from erasable.errors import ArgumentError, listing
from erasable.memory import plain
from erasable.models._inputs import as_labels
from erasable.training import Inputs, StepConfig
from erasable.typing import Label

if TYPE_CHECKING:
    from erasable.diffusion import Sampling

OUTPUTS = ("pil", "np", "pt")


class ImageGenerator(ABC):
    """A generator that is asked for images of classes. Subclasses say how they are drawn."""

    verbose: int

    @abstractmethod
    def _draw(
        self,
        labels: list[Label],
        generator: torch.Generator,
        sampling: "Sampling",
        *,
        tick: Callable[[], None],
        **options: Any,
    ) -> Tensor:
        """Return one image per label, from 0 to 1, (n, channels, height, width)."""

    @abstractmethod
    def _require_fitted(self) -> None:
        """Refuse to draw before anything was learnt."""

    def __call__(
        self,
        class_labels: Any,
        *,
        num_inference_steps: int = 50,
        guidance_scale: float = 0.3,
        generator: torch.Generator | None = None,
        batch_size: int = 64,
        output_type: str = "pil",
        **options: Any,
    ) -> Any:
        """Draw one image per label, as a pipeline of diffusers does.

        Args:
            class_labels: One label, or one per image.
            num_inference_steps: Denoising steps.
            guidance_scale: ``w`` of ``(1 + w) ε(class) − w ε(nothing)``.
            generator: Source of the noise, on the CPU; the same one gives the same images.
            batch_size: Images at a time.
            output_type: ``pil``: images of Pillow; ``np``: (n, height, width, channels) from 0 to
                1; ``pt``: a tensor (n, channels, height, width) from 0 to 1.
            **options: What the model takes besides.

        Returns:
            An ``ImagePipelineOutput`` of diffusers, with ``images``.
        """
        require_diffusion()
        from diffusers import ImagePipelineOutput

        if output_type not in OUTPUTS:
            raise ArgumentError(
                f"Expected output_type to be {listing(OUTPUTS)}, but got {output_type!r}."
            )
        images = self.sample(
            class_labels,
            num_inference_steps=num_inference_steps,
            guidance_scale=guidance_scale,
            generator=generator,
            batch_size=batch_size,
            **options,
        )
        if output_type == "pt":
            return ImagePipelineOutput(images=torch.from_numpy(images))
        channels_last = images.transpose(0, 2, 3, 1)
        if output_type == "np":
            return ImagePipelineOutput(images=channels_last)
        return ImagePipelineOutput(images=[as_picture(image) for image in channels_last])

    def sample(
        self,
        class_labels: Any,
        *,
        num_inference_steps: int = 50,
        guidance_scale: float = 0.3,
        generator: torch.Generator | None = None,
        batch_size: int = 64,
        **options: Any,
    ) -> npt.NDArray[np.float32]:
        """Draw one image per label, from 0 to 1, (n, channels, height, width); see `__call__`."""
        from erasable.diffusion import Sampling

        self._require_fitted()
        sampling = Sampling(
            *(plain(one) for one in (num_inference_steps, guidance_scale, batch_size))
        )
        labels = as_labels([class_labels] if np.ndim(class_labels) == 0 else class_labels)
        if not labels:
            raise ArgumentError("Expected at least one class label, but got none.")
        chosen = generator
        if chosen is None:
            chosen = torch.Generator()
            chosen.seed()
        if not isinstance(chosen, torch.Generator) or chosen.device.type != "cpu":
            got = getattr(chosen, "device", None) or repr(chosen)
            raise ArgumentError(f"Expected a torch.Generator on the CPU, but got {got}.")
        with Progress(console=Console(stderr=True), disable=not self.verbose) as progress:
            task = progress.add_task("drawing", total=sampling.steps)
            images = self._draw(
                labels,
                chosen,
                sampling,
                tick=lambda: progress.advance(task),
                **options,
            )
        found: npt.NDArray[np.float32] = images.cpu().float().contiguous().numpy()
        return found


def as_picture(image: npt.NDArray[Any]) -> Image.Image:
    """Return an image (height, width, channels) from 0 to 1 as a picture."""
    values = np.round(image * 255).astype(np.uint8)
    return Image.fromarray(values[:, :, 0] if values.shape[2] == 1 else values)


def require_pictures(inputs: Inputs) -> None:
    """Refuse what is no image, and numbers that do not lie between 0 and 1; bytes always do."""
    if inputs.ndim != 4:
        raise ArgumentError(
            f"Expected images (n, height, width[, channels]), but got {inputs.shape}."
        )
    if inputs.is_bytes:
        return
    low, high = inputs.range
    if not (low >= 0 and high <= 1):  # NaN is not
        raise ArgumentError(
            "Expected images of bytes, or of numbers from 0 to 1, but got numbers from "
            f"{low:.3g} to {high:.3g}. Rescale them."
        )


def require_resumable(model: Any) -> None:
    """Refuse a checkpoint for a training that draws another seed each time."""
    if model.checkpoint is not None and model.random_state is None:
        raise ArgumentError(
            "Expected random_state with checkpoint, but it is None: a run that draws a new seed "
            "each time cannot be resumed."
        )


def step_config(model: Any, *, seed: int | None = None) -> StepConfig:
    """Return the settings of a training from the parameters of a generator.

    Args:
        model: The generator.
        seed: Seed; the generator's own if not given.
    """
    names = {field.name for field in fields(StepConfig)} - {"seed"}
    settings = {name: plain(getattr(model, name)) for name in names if hasattr(model, name)}
    return StepConfig(**settings, seed=model._seed() if seed is None else seed)
