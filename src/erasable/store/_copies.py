"""Where else something of a model's rows lies: embeddings kept on disk, checkpoints, reports."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from erasable.errors import StoreError
from erasable.files import write_atomically

FORMAT = "erasable.copies.1"
CopyKind = Literal["embeddings", "checkpoint", "report"]
COPY_KINDS = ("embeddings", "checkpoint", "report")


@dataclass(frozen=True)
class Copy:
    """A place, outside the saved model, that holds something derived from its rows.

    Attributes:
        kind: ``embeddings``: what a frozen encoder returned, kept to be computed once.
            ``checkpoint``: weights in training. ``report``: a page that shows rows.
        path: The file or folder.
    """

    kind: CopyKind
    path: str

    @property
    def is_there(self) -> bool:
        """Whether the file or folder still exists."""
        return Path(self.path).exists()


def read_copies(path: Path) -> list[Copy]:
    """Return the copies that a file lists; none if there is no file.

    Raises:
        StoreError: If the file is damaged.
    """
    try:
        document = json.loads(path.read_bytes())
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']!r}")
        found = [Copy(item["kind"], str(item["path"])) for item in document["copies"]]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"Expected a list of copies in {path}, but it is damaged: {error}. Restore it; without "
            "it, nobody knows which caches hold rows of this model."
        ) from error
    return [copy for copy in found if copy.kind in COPY_KINDS]


def write_copies(path: Path, copies: list[Copy]) -> None:
    """Replace the file by a list of copies, without those that are gone.

    Folders of embeddings stay on the list: a disk may only be away for now.
    """
    listed = [
        asdict(copy) for copy in dict.fromkeys(copies) if copy.is_there or copy.kind == "embeddings"
    ]
    text = json.dumps({"format": FORMAT, "copies": listed}, indent=2)
    write_atomically(path, text.encode() + b"\n")
