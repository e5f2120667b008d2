"""A progress bar for downloads: rate and time left."""

from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


class Bar:
    """Show how much of a file is there, on standard error if that is a terminal.

    Args:
        label: What is being fetched.
        total: Its bytes.
        enabled: Whether to show anything.
    """

    def __init__(self, label: str, total: int, *, enabled: bool) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not (enabled and console.is_terminal),
        )
        self._task = self._progress.add_task(label, total=total)

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def report(self, done: int) -> None:
        """Say how many bytes are there."""
        self._progress.update(self._task, completed=done)
