"""Figures as the paper prints them, to stand beside measured ones."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PaperRow:
    """One line of a table of the paper, in percent, nats and seconds.

    Attributes:
        pg_h: Hard prediction gap.
        pg_s: Soft prediction gap.
        ua: Error rate on the forget set.
        ra: Accuracy on the retained rows.
        ta: Accuracy on the test rows.
        seconds: Time to unlearn; 0 where the paper says less than one, None where it says nothing.
    """

    pg_h: float
    pg_s: float
    ua: float
    ra: float
    ta: float
    seconds: float | None = None

    @property
    def time(self) -> str:
        """Time to unlearn as the paper has it."""
        if self.seconds is None:
            return "–"
        return f"{self.seconds:,.1f}" if self.seconds else "< 1"


Rows = dict[tuple[str, str], PaperRow]

ONE_CLASS: Rows = {
    ("parametric", "retrain"): PaperRow(0, 0, 100.00, 100.00, 94.76, 2317.6),
    ("parametric", "ga"): PaperRow(18.48, 0.99, 94.20, 94.36, 88.34, 8.9),
    ("parametric", "ft"): PaperRow(13.11, 0.48, 33.75, 99.85, 94.44, 148.7),
    ("parametric", "iu"): PaperRow(55.93, 3.51, 100.00, 45.87, 44.06, 17.7),
    ("parametric", "be"): PaperRow(15.43, 0.71, 76.99, 98.19, 92.08, 15.1),
    ("parametric", "bs"): PaperRow(15.28, 0.71, 76.90, 98.26, 92.17, 28.1),
    ("parametric", "l1_sparse"): PaperRow(13.03, 0.46, 39.74, 99.78, 94.21, 148.8),
    ("parametric", "salun"): PaperRow(9.76, 0.32, 99.10, 99.94, 94.90, 137.8),
    ("parametric", "munba"): PaperRow(16.92, 0.50, 91.53, 99.78, 94.21, 369.1),
    ("knn", "retrain"): PaperRow(0, 0, 100.00, 100.00, 93.22, 2317.6),
    ("knn", "deletion"): PaperRow(8.10, 0.55, 100.00, 99.56, 94.99, 0),
    ("spm", "retrain"): PaperRow(0, 0, 100.00, 99.98, 94.38, 3288.9),
    ("spm", "deletion"): PaperRow(8.62, 0.27, 100.00, 99.98, 94.90, 0),
}
"""CIFAR-10, one class forgotten."""

FIVE_CLASSES: Rows = {
    ("parametric", "retrain"): PaperRow(0, 0, 100.00, 100.00, 96.06, 1284.9),
    ("parametric", "ga"): PaperRow(32.62, 2.86, 100.00, 84.49, 81.77, 41.3),
    ("parametric", "ft"): PaperRow(26.21, 0.72, 65.24, 99.94, 96.65, 81.8),
    ("parametric", "iu"): PaperRow(75.71, 424.85, 100.00, 20.03, 20.02, 16.8),
    ("parametric", "be"): PaperRow(46.00, 2.11, 35.79, 99.60, 95.89, 81.6),
    ("parametric", "bs"): PaperRow(44.01, 1.95, 38.75, 99.60, 96.02, 159.7),
    ("parametric", "l1_sparse"): PaperRow(26.12, 0.72, 65.30, 99.94, 96.65, 82.8),
    ("parametric", "salun"): PaperRow(25.84, 0.74, 98.02, 99.97, 96.88, 142.9),
    ("parametric", "munba"): PaperRow(29.38, 1.46, 91.53, 99.78, 94.21, 369.1),
    ("knn", "retrain"): PaperRow(0, 0, 100.00, 99.59, 96.07, 1284.9),
    ("knn", "deletion"): PaperRow(17.81, 0.67, 100.00, 99.72, 96.95, 0),
    ("spm", "retrain"): PaperRow(0, 0, 100.00, 99.99, 95.73, 1841.6),
    ("spm", "deletion"): PaperRow(21.20, 0.52, 100.00, 99.98, 96.96, 0),
}
"""CIFAR-10, five classes forgotten."""

RANDOM_10: Rows = {
    ("parametric", "retrain"): PaperRow(0, 0, 5.35, 100.00, 94.25),
    ("parametric", "ga"): PaperRow(5.23, 0.17, 0.55, 99.52, 94.57),
    ("parametric", "ft"): PaperRow(5.89, 0.19, 0.89, 99.84, 93.93),
    ("parametric", "iu"): PaperRow(26.60, 1.69, 22.50, 77.68, 73.16),
    ("parametric", "be"): PaperRow(5.30, 0.17, 0.52, 99.52, 94.54),
    ("parametric", "bs"): PaperRow(5.31, 0.17, 0.53, 99.51, 94.53),
    ("parametric", "l1_sparse"): PaperRow(6.03, 0.19, 1.06, 99.76, 93.75),
    ("parametric", "salun"): PaperRow(5.40, 0.15, 1.46, 99.86, 94.17),
    ("parametric", "munba"): PaperRow(5.39, 0.14, 0.96, 99.97, 94.44),
    ("knn", "retrain"): PaperRow(0, 0, 0.02, 99.98, 94.45),
    ("spm", "retrain"): PaperRow(0, 0, 0.18, 99.43, 93.89),
    ("spm", "deletion"): PaperRow(5.54, 0.19, 0.02, 99.98, 94.45),
}
"""CIFAR-10, a random tenth forgotten."""

RANDOM_50: Rows = {
    ("parametric", "retrain"): PaperRow(0, 0, 8.48, 100.00, 91.08),
    ("parametric", "ga"): PaperRow(8.05, 0.37, 0.54, 99.51, 94.53),
    ("parametric", "ft"): PaperRow(8.50, 0.36, 0.96, 99.82, 93.75),
    ("parametric", "iu"): PaperRow(83.63, 8.29, 83.32, 16.71, 16.55),
    ("parametric", "be"): PaperRow(34.70, 1.22, 25.81, 74.07, 67.71),
    ("parametric", "bs"): PaperRow(26.55, 0.85, 17.30, 82.64, 75.69),
    ("parametric", "l1_sparse"): PaperRow(8.53, 0.35, 0.95, 99.86, 93.75),
    ("parametric", "salun"): PaperRow(7.94, 0.33, 1.14, 99.48, 93.61),
    ("parametric", "munba"): PaperRow(12.94, 1.50, 5.86, 96.74, 88.99),
    ("knn", "retrain"): PaperRow(0, 0, 0.02, 99.98, 94.45),
    ("spm", "retrain"): PaperRow(0, 0, 4.89, 95.96, 91.08),
    ("spm", "deletion"): PaperRow(7.83, 0.36, 0.02, 99.98, 94.45),
}
"""CIFAR-10, a random half forgotten."""

IMAGENET: Rows = {
    ("parametric", "retrain"): PaperRow(0, 0, 100.00, 68.19, 68.13, 226025.4),
    ("parametric", "ga"): PaperRow(30.47, 0.78, 92.69, 64.78, 65.41, 24.8),
    ("parametric", "ft"): PaperRow(29.68, 0.53, 99.99, 62.51, 64.29, 11361.4),
    ("parametric", "iu"): PaperRow(39.18, 1.10, 95.85, 54.48, 57.28, 5684.0),
    ("parametric", "be"): PaperRow(33.94, 0.92, 96.04, 61.02, 62.34, 47.0),
    ("parametric", "bs"): PaperRow(35.45, 0.99, 98.01, 59.35, 60.95, 44.5),
    ("parametric", "l1_sparse"): PaperRow(31.29, 0.57, 100.00, 60.19, 62.60, 11236.7),
    ("parametric", "salun"): PaperRow(25.72, 0.42, 77.57, 68.00, 68.52, 225519.2),
    ("parametric", "munba"): PaperRow(34.05, 0.65, 100.00, 56.55, 59.68, 16685.9),
    ("knn", "retrain"): PaperRow(0, 0, 100.00, 65.94, 66.15, 226025.4),
    ("knn", "deletion"): PaperRow(18.99, 2.54, 100.00, 63.22, 64.44, 0),
    ("spm", "retrain"): PaperRow(0, 0, 100.00, 65.20, 67.10, 268803.5),
    ("spm", "deletion"): PaperRow(14.60, 0.12, 100.00, 65.01, 67.10, 0),
}
"""ImageNet, one class forgotten."""
