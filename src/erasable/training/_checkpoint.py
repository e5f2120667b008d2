"""The state of a training run on disk: one file, replaced atomically, never pickled."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from erasable.errors import ErasableError, StateError, StoreError
from erasable.files import open_regular, parse_json, write_atomically

_FORMAT = "erasable.checkpoint.1"
_NAME = "checkpoint.safetensors"
_STATE = {
    "momentum": "momentum_buffer",
    "exp_avg": "exp_avg",
    "exp_avg_sq": "exp_avg_sq",
    "adam_step": "step",
}
"""What optimisers keep per parameter, by its name in the file."""


_DAMAGE = (
    safetensors.SafetensorError,
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RuntimeError,
)
"""What a damaged file makes of those that read it; torch raises RuntimeError on other shapes."""


@dataclass(frozen=True)
class Progress:
    """How far a run got: epochs done, what each one measured, and how long they took."""

    epochs_done: int
    history: list[dict[str, float]]
    seconds: float = 0.0


def seconds_spent(folder: Path) -> float:
    """Return how long the epochs of a run took, from its checkpoint.

    Epochs before an interruption count; the part of an epoch that was lost by it does not.

    Args:
        folder: Where the checkpoint lies.
    """
    with safetensors.safe_open(folder / _NAME, "pt") as file:
        return float((file.metadata() or {}).get("seconds", 0))


def discard_checkpoint(folder: Path) -> None:
    """Remove a checkpoint, and its folder unless something else lies there.

    A file of that name that is no checkpoint stays.

    Args:
        folder: Where the checkpoint lies.
    """
    if not folder.is_dir():
        return
    if _is_ours(folder / _NAME):
        (folder / _NAME).unlink(missing_ok=True)
    for path in folder.glob(f".{_NAME}.*.tmp"):
        path.unlink(missing_ok=True)
    if not folder.is_symlink() and not any(folder.iterdir()):
        folder.rmdir()


def _is_ours(path: Path) -> bool:
    try:
        open_regular(path).close()
        with safetensors.safe_open(path, "pt") as file:
            return (file.metadata() or {}).get("format") == _FORMAT
    except (safetensors.SafetensorError, OSError):
        return False


class Checkpoint:
    """The last finished epoch of one run, identified by everything the run depends on.

    Args:
        folder: Where the file lies; created when first saved.
        identity: Plain values that must be equal for a run to be resumed.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self._path = folder / _NAME
        self._identity = dict(identity)

    def save(
        self,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        progress: Progress,
        *,
        average: nn.Module | None = None,
    ) -> None:
        """Replace the file by the present state; ``average`` is a running mean of the network."""
        tensors = {f"network.{k}": v for k, v in network.state_dict().items()}
        tensors |= _optimizer_state(network, optimizer)
        if average is not None:
            tensors |= {f"average.{k}": v for k, v in average.state_dict().items()}
        meta = {
            "format": _FORMAT,
            "identity": json.dumps(self._identity, sort_keys=True),
            "epochs_done": str(progress.epochs_done),
            "history": json.dumps(progress.history),
            "seconds": repr(progress.seconds),
        }
        # Copies, because safetensors refuses layers that share their weights.
        copies = {k: v.clone(memory_format=torch.contiguous_format) for k, v in tensors.items()}
        data = safetensors.torch.save(copies, meta)
        write_atomically(self._path, data)

    def restore(
        self,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        average: nn.Module | None = None,
    ) -> Progress | None:
        """Load the file into network, optimiser and running mean; None if there is no file yet.

        Raises:
            StateError: If the file belongs to a run with other data or settings.
            StoreError: If the file is damaged.
        """
        if not self._path.exists():
            return None
        try:
            open_regular(self._path).close()
            with safetensors.safe_open(self._path, "pt") as file:
                meta = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            self._require_same(meta)
            found = Progress(
                int(meta["epochs_done"]),
                parse_json(meta["history"]),
                float(meta.get("seconds", 0)),
            )
            network.load_state_dict(_part(tensors, "network."))
            _set_optimizer_state(network, optimizer, tensors)
            if average is not None:
                average.load_state_dict(_part(tensors, "average."))
        except ErasableError:
            raise
        except _DAMAGE as error:
            raise StoreError(
                f"Expected a checkpoint in {self._path}, but it is damaged ({error}). Delete it to "
                "start anew."
            ) from error
        return found

    def _require_same(self, meta: Mapping[str, str]) -> None:
        if meta.get("format") != _FORMAT:
            raise StoreError(f"Expected {_FORMAT} in {self._path}, but got {meta.get('format')!r}.")
        found = parse_json(meta["identity"])
        names = {*found, *self._identity}
        other = sorted(n for n in names if found.get(n) != self._identity.get(n))
        if other:
            raise StateError(
                f"Expected to resume the run in {self._path}, but it differs in "
                f"{', '.join(other)}. Use its settings and data, or another folder."
            )


def _optimizer_state(network: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    found = {}
    for name, parameter in network.named_parameters():
        kept = optimizer.state.get(parameter, {})
        for short, key in _STATE.items():
            if kept.get(key) is not None:
                found[f"{short}.{name}"] = kept[key]
    return found


def _set_optimizer_state(
    network: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    for name, parameter in network.named_parameters():
        for short, key in _STATE.items():
            value = tensors.get(f"{short}.{name}")
            if value is None:
                continue
            if value.shape == parameter.shape:  # laid out as the parameter is
                value = torch.empty_like(parameter).copy_(value)
            optimizer.state[parameter][key] = value


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
