"""Tables and pictures of generation; needs the extra ``diffusion``."""

from erasable.bench.generation._drawings import Drawings
from erasable.bench.generation._figures import before_and_after, first_of_each, image_grid
from erasable.bench.generation._forgetting import Forgetting, run_forgetting
from erasable.bench.generation._forgetting_sheets import forgetting_document
from erasable.bench.generation._generators import Generators, at_side, first_of_classes
from erasable.bench.generation._pipeline import pipeline_picture
from erasable.bench.generation._presets import GENERATION, METHODS, SPM_VARIANTS
from erasable.bench.generation._reminded import reminded_document, run_reminded
from erasable.bench.generation._standard import (
    SIZES,
    run_standard,
    run_variants,
    standard_document,
)
from erasable.bench.generation._votes_picture import votes_picture

__all__ = [
    "GENERATION",
    "METHODS",
    "SIZES",
    "SPM_VARIANTS",
    "Drawings",
    "Forgetting",
    "Generators",
    "at_side",
    "before_and_after",
    "first_of_classes",
    "first_of_each",
    "forgetting_document",
    "image_grid",
    "pipeline_picture",
    "reminded_document",
    "run_forgetting",
    "run_reminded",
    "run_standard",
    "run_variants",
    "standard_document",
    "votes_picture",
]
