"""A progress bar with loss, accuracy and time left."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Display:
    """Show how far a run is, on standard error, or nothing at all.

    Args:
        epochs: Epochs in all.
        enabled: Whether to show anything.
        done: Epochs done before this process took over.
        unit: What is counted, if it is not epochs.
    """

    def __init__(self, epochs: int, *, enabled: bool, done: int = 0, unit: str = "epoch") -> None:
        self._epochs = epochs
        self._progress = Progress(
            TextColumn(unit + " {task.fields[epoch]}/{task.total:.0f}"),
            BarColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not enabled,
        )
        self._task = self._progress.add_task(
            "", total=epochs, completed=done, epoch=min(done + 1, epochs), figures=""
        )

    def __enter__(self) -> "Display":
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def step(self, share: float, loss: float | None = None, accuracy: float | None = None) -> None:
        """Advance by a share of an epoch."""
        figures = "" if loss is None else f"loss {loss:.3f}"
        if accuracy is not None:
            figures += f"  accuracy {accuracy:.1%}"
        self._progress.update(self._task, advance=share, figures=figures)
        done = self._progress.tasks[0].completed
        self._progress.update(self._task, epoch=min(self._epochs, int(done + 1 - 1e-6)))
