"""Where else something of a model's rows lies: caches, checkpoints, reports, drawings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

CopyKind = Literal["embeddings", "checkpoint", "report", "drawing"]
COPY_KINDS = ("embeddings", "checkpoint", "report", "drawing")


@dataclass(frozen=True)
class Copy:
    """A place, outside the saved model, that holds something derived from its rows.

    Attributes:
        kind: ``embeddings``: what a frozen encoder returned, kept to be computed once.
            ``checkpoint``: weights in training. ``report``: a page that shows rows.
            ``drawing``: images that were drawn from rows.
        path: The file or folder.
    """

    kind: CopyKind
    path: str

    @property
    def is_there(self) -> bool:
        """Whether the file or folder still exists."""
        return Path(self.path).exists()
