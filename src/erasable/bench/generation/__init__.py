"""Tables and pictures of generation; needs the extra ``diffusion``."""

from erasable.bench.generation._figures import before_and_after, first_of_each, image_grid
from erasable.bench.generation._generators import GENERATION, SPM_VARIANTS, Generators
from erasable.bench.generation._pipeline import pipeline_picture
from erasable.bench.generation._tables import (
    METHODS,
    SIZES,
    Forgetting,
    forgetting_document,
    run_forgetting,
    run_standard,
    standard_document,
)

__all__ = [
    "GENERATION",
    "METHODS",
    "SIZES",
    "SPM_VARIANTS",
    "Forgetting",
    "Generators",
    "before_and_after",
    "first_of_each",
    "forgetting_document",
    "image_grid",
    "pipeline_picture",
    "run_forgetting",
    "run_standard",
    "standard_document",
]
