"""Whether an encoder is a function of one input: tried, where it is not known by its parts."""

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from erasable.encoders import Encoder
from erasable.encoders._trial import REFUSALS, evaluating
from erasable.errors import ArgumentError, ErasableError
from erasable.models._fingerprint import UnreadableError, fingerprint
from erasable.models._networks import SPMNetwork, evaluate
from erasable.models._provenance import UNKNOWN, Provenance
from erasable.models._stateless import OWN_ENCODERS, unknown_parts, unknowns
from erasable.training import Inputs
from erasable.weights import weights_digest

_ROWS = 8
_TOLERANCE = 1e-4  # of the largest value of an embedding: float32 in batches of other sizes
_HUGE = 1e30
_FAR = 1e3  # how much larger the rows are that share a batch: mixing shows, rounding does not


class Examined(Protocol):
    """A model whose encoder is examined."""

    network_: SPMNetwork
    input_shape_: tuple[int, ...]
    allow_memory_level: bool


def examined(model: Examined, known: Provenance, rows: Inputs | None = None) -> Provenance:
    """Return the record of a model whose encoder was tried, or refuse the encoder.

    Args:
        model: The model.
        known: What the weights have seen.
        rows: Rows at hand, of which the first are tried, too.

    Raises:
        ArgumentError: If the encoder is not a function of one input, and nobody accepted that.
    """
    encoder = model.network_.encoder
    if type(encoder).is_relational:
        # Rows are encoded together with others: only a readout that encodes the others again when
        # a row goes, as the set encoders of this library do, could be exact.
        return known.joined(UNKNOWN)
    reason = probe(encoder, model.input_shape_, rows) if needs_probe(encoder) else None
    if reason is None:
        return known
    if model.allow_memory_level is not True:
        raise ArgumentError(
            f"Expected an encoder that encodes each row by itself and learns nothing, but {reason}."
            " So what is forgotten might stay in other rows, or in the encoder. Change the "
            "network, or pass allow_memory_level=True: then no row is exact."
        )
    return known.joined(UNKNOWN)


def needs_probe(encoder: Encoder) -> bool:
    """Tell whether an encoder has to be tried: all but the library's own, as they were written."""
    return type(encoder) not in OWN_ENCODERS or bool(unknowns(encoder))


def probe(encoder: Encoder, input_shape: tuple[int, ...], rows: Inputs | None = None) -> str | None:
    """Say why an encoder is not a function of one input, or return None if no trial shows it.

    A few rows are encoded alone and in two batches, in eval mode. Each must come out alike but for
    rounding, and the encoder must hold afterwards what it held before.

    Args:
        encoder: The encoder.
        input_shape: Shape of one input.
        rows: Rows at hand, of which the first are tried, too; drawn ones are tried in any case.
    """
    with evaluating(encoder), torch.random.fork_rng(devices=[]):
        try:
            return _tried(encoder, input_shape, rows)
        except UnreadableError as error:
            return f"it holds {error}, so that nobody can tell whether encoding changes it"
        except ErasableError:
            raise
        except REFUSALS as error:
            return f"it does not take batches of any size: {error}"


def _tried(encoder: Encoder, input_shape: tuple[int, ...], rows: Inputs | None) -> str | None:
    before = held(encoder)
    drawn = torch.rand(_ROWS, *input_shape, generator=torch.Generator().manual_seed(0))
    for queries in (drawn, *([] if rows is None or not len(rows) else [rows[:_ROWS]])):
        reason = _mixes(encoder, queries, drawn)
        if reason is not None:
            return reason
    if held(encoder) != before:
        return "encoding changes what it holds: its weights, buffers, attributes or what they share"
    return None


def is_alone_as_in_batch(network: SPMNetwork, inputs: Inputs, encoded: npt.NDArray[Any]) -> bool:
    """Tell whether rows that were encoded for the memory come out alike alone; a few are tried.

    Args:
        network: The network.
        inputs: Inputs of the rows.
        encoded: What was encoded of them, normalised, (rows, dim).
    """
    if not needs_probe(network.encoder):
        return True
    for place in sorted({0, len(inputs) // 2, len(inputs) - 1}):
        alone = torch.cat(
            list(
                evaluate(
                    network.embedder,
                    inputs.take([place]),
                    is_precise=network.encoder.is_precise,
                )
            )
        )
        found = torch.from_numpy(np.asarray(encoded[place : place + 1]))
        if not _agree(found.double(), alone.double()):
            return False
    return True


def rest_of(encoder: Encoder) -> str | None:
    """Return a digest of what a user's network holds besides weights, to be saved with a model.

    It does not depend on the version of Python. None for a network of known parts.
    """
    if type(encoder) in OWN_ENCODERS or not any(unknown_parts(encoder)):
        return None
    try:
        return fingerprint(encoder, has_code=False)
    except UnreadableError:
        return "unreadable"


def held(network: nn.Module) -> tuple[str, str]:
    """Return digests of all that a network holds: what torch registers, and the rest."""
    return weights_digest(network), fingerprint(network)


def _mixes(encoder: Encoder, rows: Tensor, drawn: Tensor) -> str | None:
    alone = torch.cat([_encoded(encoder, row[None]) for row in rows])
    for batch, places in _batches(encoder, rows, drawn):
        found = _encoded(encoder, batch)[places]
        if not _agree(found, alone):
            return "it encodes a row alone and in a batch of others differently"
    return None


def _agree(found: Tensor, alone: Tensor) -> bool:
    """Tell whether embeddings (rows, dim) agree to rounding.

    Near the end of the range of float32, rounding decides whether a sum is finite: nothing is said
    of such numbers, which no memory takes.
    """
    is_finite = found.isfinite() & alone.isfinite()
    sizes = [one.abs().nan_to_num(torch.inf, torch.inf) for one in (found, alone)]
    is_huge = torch.minimum(*sizes) > _HUGE
    differs = torch.where(is_finite, (found - alone).abs(), torch.inf).masked_fill(is_huge, 0)
    allowed = _TOLERANCE * alone.nan_to_num(0, 0, 0).abs().amax(1, keepdim=True) + 1e-6
    return bool((differs <= allowed).all())


def _batches(encoder: Encoder, rows: Tensor, drawn: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield two batches that hold the rows, and their places: among themselves, among others."""
    yield rows, torch.arange(len(rows))
    others = drawn[: max(1, _ROWS // 2) + 1]
    for factor in (_FAR, 1.0):
        batch = torch.cat([factor * others, rows.flip(0)])
        with contextlib.suppress(ErasableError, *REFUSALS):
            _encoded(encoder, batch)
            break
    yield batch, torch.arange(len(others), len(batch)).flip(0)


def _encoded(encoder: Encoder, inputs: Tensor) -> Tensor:
    batches = evaluate(encoder, inputs, is_precise=encoder.is_precise)
    return torch.cat(list(batches)).double()
