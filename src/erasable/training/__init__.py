"""Training loops: the batch as the memory, checkpoints after each epoch, exact resume."""

from erasable.training._augment import augment
from erasable.training._batches import epoch_batches, steps_per_epoch
from erasable.training._checkpoint import discard_checkpoint, seconds_spent
from erasable.training._config import TrainingConfig
from erasable.training._device import computing_in, make_fabric
from erasable.training._display import Display
from erasable.training._inputs import Inputs, as_images, input_shape
from erasable.training._loop import train
from erasable.training._objective import (
    Batch,
    CrossEntropy,
    InBatchMemory,
    Objective,
    SeparateSupport,
    StepResult,
)
from erasable.training._produced import note_produced, produced_here
from erasable.training._steps import Draw, StepConfig, StepLoss, Watcher, mean_weight, train_steps
from erasable.training._support import Support
from erasable.training._training import TRAININGS, Augmentation, Training, as_training

__all__ = [
    "TRAININGS",
    "Augmentation",
    "Batch",
    "CrossEntropy",
    "Display",
    "Draw",
    "InBatchMemory",
    "Inputs",
    "Objective",
    "SeparateSupport",
    "StepConfig",
    "StepLoss",
    "StepResult",
    "Support",
    "Training",
    "TrainingConfig",
    "Watcher",
    "as_images",
    "as_training",
    "augment",
    "computing_in",
    "discard_checkpoint",
    "epoch_batches",
    "input_shape",
    "make_fabric",
    "mean_weight",
    "note_produced",
    "produced_here",
    "seconds_spent",
    "steps_per_epoch",
    "train",
    "train_steps",
]
