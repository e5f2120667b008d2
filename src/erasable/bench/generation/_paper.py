"""Figures of generation as the paper prints them, on CIFAR-10."""

STANDARD = {
    "ddpm": (7.28, 1.0),
    "gmm": (198.42, 0.01),
    "spm 10": (7.71, 1.23),
    "spm 20": (7.30, 1.50),
    "spm 50": (7.17, 2.40),
    "spm 100": (7.09, 4.11),
    "spm 1024": (7.04, 35.04),
}
"""FID, and time as a multiple of the ordinary model's."""

FORGETTING: dict[tuple[str, str], tuple[float, float, float]] = {
    ("ddpm", "retrain"): (0.0, 99.97, 10.62),
    ("ddpm", "sa"): (121.79, 95.44, 23.25),
    ("ddpm", "salun"): (5.96, 99.40, 20.57),
    ("ddpm", "sfron"): (48.57, 98.48, 19.71),
    ("ddpm", "erasediff"): (float("nan"), 53.53, 8.66),
    ("spm", "retrain"): (0.0, 99.66, 7.05),
    ("spm", "deletion"): (1.90, 99.65, 7.38),
    ("spm_permuted", "retrain"): (0.0, 99.66, 7.05),
    ("spm_permuted", "deletion"): (1.90, 99.65, 7.38),
    ("spm_plain", "deletion"): (3.62, 69.65, 4.59),
}
"""FID_O, UA and FID_R: means over automobile, cat, dog, horse and truck. Its model permutes labels;
``spm`` here has no label embedding at all, and faces the same figures."""
