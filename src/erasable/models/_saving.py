"""A model with a memory as a directory, and back."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import nn

from erasable._extras import require_diffusion
from erasable._version import __version__
from erasable.encoders import ModuleEncoder, build_encoder
from erasable.errors import (
    ArgumentError,
    ErasableError,
    MissingExtraError,
    StateError,
    StoreError,
    StoreRefusedError,
    listing,
)
from erasable.memory import Marks, Memory, keyring
from erasable.models._adapt import Start
from erasable.models._input_kind import as_kind
from erasable.models._networks import EmbeddingNorm
from erasable.models._presets import parameters_of
from erasable.models._probe import rest_of
from erasable.models._provenance import (
    CHOICE,
    PRETRAINING,
    UNKNOWN,
    UNVERIFIED,
    Provenance,
    Source,
    vouched_for,
)
from erasable.store import (
    Basis,
    Change,
    ModelDirectory,
    RowsFile,
    Saved,
    SavedSource,
    State,
    changed,
    changing,
)
from erasable.training import Training, note_produced
from erasable.weights import load_weights, weights_of

if TYPE_CHECKING:
    from erasable.models._memory_classifier import MemoryClassifier
    from erasable.models._memory_model import MemoryModel

_GENERATOR = "SPMGenerator"
_NOT_SAVED = {"encoder", "encoder_options", "random_state", "device", "checkpoint", "verbose"}


@dataclass(frozen=True)
class Place:
    """Where a model was loaded from or saved to, and which state of it lies there."""

    path: Path
    identity: str
    revision: int


def save(model: "MemoryModel", path: Path, *, overwrite: bool) -> Place:
    """Write a model to a directory; return where it stands there.

    A directory that this model came from is brought up to date. Any other model there is replaced
    only if ``overwrite`` says so, and what was forgotten there stays forgotten. Both are one
    transaction; if that fails, the model and the files are as they were.
    """
    directory = ModelDirectory(path.resolve())
    if not directory.exists and not directory.is_free:
        raise _not_free(directory)
    with model.memory.live.lock.changing(), _kept_on_error(model.memory):
        with changing(directory) as change:
            keeps_rows = _keeps_rows(model, change, overwrite=overwrite)
            write_state(model, change, keeps_rows=keeps_rows)
        place = Place(directory.path, change.identity, change.revision)
    directory.tidy(model._view(model.weights_digest))
    return place


def write_state(
    model: "MemoryModel", change: Change, *, keeps_rows: bool, is_caught_up: bool = False
) -> None:
    """Write a model into a change of its directory.

    Args:
        model: The model.
        change: The change.
        keeps_rows: Whether this is the very model that is there, with some rows changed.
        is_caught_up: Whether it has forgotten again what was forgotten since an older copy.
    """
    if not keeps_rows:
        model.memory.respect(change.past_marks)
    _persist_keys(model)
    state = State(
        _config(model),
        model.weights_digest,
        model.memory,
        model.memory.tombstones.marks,
        _saved_sources(model.provenance_),
        model.copies_,
    )
    weights = weights_of(model.network_)
    change.write(state, weights, keeps_rows=keeps_rows, is_caught_up=is_caught_up)


@dataclass(frozen=True)
class Given:
    """What a caller brings to open a model.

    Attributes:
        encoder: The network, if the model was made with one of the user's own.
        allow_memory_level: Whether a network is accepted that does not encode each row by itself.
    """

    encoder: nn.Module | None = None
    allow_memory_level: bool = False


def read_model(
    directory: ModelDirectory, file: RowsFile, given: Given
) -> tuple["MemoryModel", Saved]:
    """Return the model in an open file, and what else was read of it.

    Raises:
        StoreError: If it is damaged.
    """
    saved = directory.read(file)
    try:
        if not saved.is_verified:
            _require_seal_of_code(directory, saved)
            _require_size(directory, saved, given)
        model = _build_any(saved.config, given.encoder)
        model.data_ = _data(saved.config)
        model.input_kind_ = as_kind(saved.config.get("input_kind"))
    except (StateError, StoreError, MissingExtraError):
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError) as error:
        raise _incomplete(directory, error) from error
    except (ValueError, RuntimeError) as error:  # the library's own refusals are among them
        raise _incomplete(directory, error) from error
    try:
        tensors = weights_of(model.network_)
        load_weights(model.network_, directory.read_weights(saved.weights, tensors))
    except ArgumentError as error:
        raise StoreError(
            f"Expected weights in {directory.path} that fit its encoder, but: {error}"
        ) from error
    model.memory_ = saved.memory
    known = _provenance(saved.sources)
    model._record(known if saved.is_verified else known.joined(Provenance((UNVERIFIED,))))
    _note_trained(model)
    if given.allow_memory_level and "allow_memory_level" in model.get_params():
        model.set_params(allow_memory_level=True)
    model._readmit(saved.config)
    place = Place(directory.path, saved.identity, saved.revision)
    model.places_ = {place.path: place}
    model.copies_ = saved.copies
    model.is_verified_, model.doubts_ = saved.is_verified, saved.doubts
    return model, saved


def _require_seal_of_code(directory: ModelDirectory, saved: Saved) -> None:
    """Refuse to import what a configuration names that anybody may have written."""
    path = saved.config.get("encoder", {}).get("options", {}).get("preprocess")
    if isinstance(path, str):
        raise StateError(
            f"Expected the key of the model in {directory.path}, because it names a function to "
            f"import ({path!r}) and nobody can tell who wrote that. Put the key back."
        )


def _require_size(directory: ModelDirectory, saved: Saved, given: Given) -> None:
    """Refuse a network that is larger than its file of weights, before memory is taken for it."""
    named = saved.config.get("encoder", {}).get("name")
    if given.encoder is not None or named == ModuleEncoder.name:
        return  # it is there already
    with torch.device("meta"):
        trial = _build_any(saved.config, None)
    needed = sum(tensor.nbytes for tensor in weights_of(trial.network_).values())
    if needed > directory.size_of_weights(saved.weights):
        raise ValueError(f"the network has {needed:,} bytes of weights, more than are in the file")


def _build_any(config: dict[str, Any], encoder: nn.Module | None) -> "MemoryModel":
    if config["kind"] != _GENERATOR:
        return _build(config, encoder)
    if encoder is not None:
        raise StateError("Expected load(path) without an encoder: this model is a generator.")
    require_diffusion()
    from erasable.models._spm_generator import SPMGenerator

    parameters = {k: v for k, v in config["parameters"].items() if k not in _NOT_SAVED}
    model = SPMGenerator(**parameters)
    model.input_shape_ = tuple(config["input_shape"])
    model._start(0, Marks(), known=config["known"], classes=config["class_count"])
    return model


def _build(config: dict[str, Any], encoder: nn.Module | None) -> "MemoryClassifier":
    from erasable.models._knn import KNNClassifier
    from erasable.models._spm import SPMClassifier

    kinds: dict[str, type[MemoryClassifier]] = {
        kind.__name__: kind for kind in (SPMClassifier, KNNClassifier)
    }
    if config["kind"] not in kinds:
        raise ArgumentError(f"Expected the kind {listing(kinds)}, but got {config['kind']!r}.")
    chosen, options = config["encoder"]["name"], config["encoder"]["options"]
    if chosen == ModuleEncoder.name and encoder is not None:
        chosen = encoder
    elif chosen == ModuleEncoder.name:
        raise StateError(
            "Expected load(path, encoder=network), because this model was made with a network of "
            "your own: pass one of the same architecture, such as cut(network, layer) if it was "
            "converted; its weights are loaded."
        )
    elif encoder is not None:
        raise StateError(
            f"Expected load(path) without an encoder: this model has the encoder {chosen!r}."
        )
    parameters = _parameters(config["parameters"], chosen, options)
    options = parameters["encoder_options"]
    model = kinds[config["kind"]](**parameters)
    model.input_shape_ = tuple(config["input_shape"])
    if len(model.input_shape_) == 1:
        model.n_features_in_ = model.input_shape_[0]
    if config["feature_names"]:
        model.feature_names_in_ = config["feature_names"]
    built = build_encoder(model._own_encoder(), model.input_shape_, options=options, is_blank=True)
    model._adopt(model._network(Start(built, UNKNOWN), seed=0).eval(), Marks(), dim=built.dim)
    model._check_parameters()
    fitted = model.get_params(deep=False)
    as_built = {k: v for k, v in config["network"].items() if v is not None}
    network = model.set_params(**as_built)._network(Start(built, UNKNOWN), seed=0)
    model.set_params(**{name: fitted[name] for name in as_built})
    model._adopt(network.eval(), Marks(), dim=built.dim)
    return model


def _parameters(
    saved: dict[str, Any], encoder: str | nn.Module, options: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the parameters of a saved classifier; an older one has those of its training, too."""
    known = {**_without_places(saved), "encoder": encoder, "encoder_options": options or None}
    if isinstance(known.get("training"), dict):
        return {**known, "training": Training(**_without_places(known["training"]))}
    return parameters_of(known)


def _without_places(saved: dict[str, Any]) -> dict[str, Any]:
    """Return saved values that a directory may choose: not where a later fit writes."""
    return {k: v for k, v in saved.items() if k not in _NOT_SAVED}


def _keeps_rows(model: "MemoryModel", change: Change, *, overwrite: bool) -> bool:
    """Tell whether a directory holds the model that was read from or written to it.

    Raises:
        ModelChangedError: If it does, but another process has changed it since.
        StoreError: If it holds something else, which is not to be replaced.
    """
    directory, present = change.directory, change.present
    place = model.places_.get(directory.path)
    if present is None:
        if not directory.is_free:
            raise _not_free(directory)
        return False
    if place is not None and place.identity == present.identity:
        if place.revision != present.revision:
            raise changed(directory.path)
        if present.weights == model.weights_digest:
            return True
    if not overwrite:
        raise StoreRefusedError(
            f"Expected a new directory, but {directory.path} already holds a model. Choose "
            "another one, or pass overwrite=True to replace it."
        )
    return False


@contextlib.contextmanager
def _kept_on_error(memory: Memory) -> Iterator[None]:
    """Put the tombstones of a memory back as they were if the block raises."""
    before = memory.tombstones.marks.copy()
    try:
        yield
    except BaseException:
        memory.tombstones.marks = before
        raise


def _config(model: "MemoryModel") -> dict[str, Any]:
    parameters = model.get_params(deep=False)
    return {
        "kind": type(model).__name__,
        "erasable": __version__,
        "input_shape": list(model.input_shape_),
        "data": model.data_,
        "parameters": {
            k: _plain(v, is_path=k == "embedding_cache")
            for k, v in parameters.items()
            if k not in _NOT_SAVED
        },
        **model._description(),
    }


def describe_classifier(model: "MemoryClassifier") -> dict[str, Any]:
    """Return what a saved classifier has besides what every saved model has."""
    encoder, fusion = model.network_.encoder, model.network_.fusion
    names = getattr(model, "feature_names_in_", None)
    return {
        "encoder": {
            "name": encoder.name,
            "options": encoder.options(),
            # Of what somebody vouches for, and of nothing else: it may be all that was encoded.
            "holds": rest_of(encoder) if vouched_for(model.provenance_) else None,
        },
        # As built: a parameter that was set since does not change the network.
        "network": {
            "normalize": "layer" if isinstance(model.network_.norm, EmbeddingNorm) else "none",
            "scale": None if fusion is None else fusion.factor,
            "set_encoder": None if fusion is None else _set_encoder_name(model),
        },
        "feature_names": None if names is None else [str(name) for name in names],
    }


def _plain(value: Any, *, is_path: bool) -> Any:
    if is_path and value is not None:
        return str(Path(value).resolve())  # the model may be loaded from elsewhere
    if isinstance(value, Training):
        return value.settings()
    if isinstance(value, (list, tuple)):
        return [_plain(one, is_path=False) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def _set_encoder_name(model: "MemoryClassifier") -> str:
    set_encoder = model.network_.set_encoder
    return "none" if set_encoder is None else set_encoder.name


def _not_free(directory: ModelDirectory) -> StoreError:
    return StoreRefusedError(
        f"Expected a new or empty directory, but {directory.path} holds other files."
    )


def _incomplete(directory: ModelDirectory, error: Exception) -> StoreError:
    found = str(error) if isinstance(error, ErasableError) else repr(error)
    return StoreError(
        f"Expected a complete configuration in {directory.path}, but: {found}. Restore the last "
        "copy of the whole directory."
    )


def _data(config: dict[str, Any]) -> dict[str, Any] | None:
    """Return the record of the data set that a model was made from."""
    data = config.get("data")
    if data is not None and not isinstance(data.get("name"), str):
        raise ValueError("the data set has no name")
    return cast(dict[str, Any] | None, data)


def _persist_keys(model: "MemoryModel") -> None:
    keyring.persist(keyring.active())  # it seals the model
    marks = [model.memory.tombstones.marks]
    marks += [source.marks for source in model.provenance_.sources if source.marks is not None]
    for key_id in {key_id for some in marks for key_id in some.key_ids}:
        if keyring.get(key_id) is not None:
            keyring.persist(key_id)


def _note_trained(model: "MemoryModel") -> None:
    """Note the weights that a training of rows left, so that copies of them are known."""
    trained = {one.name for one in model.provenance_.sources if one.basis == "recorded"} - {CHOICE}
    is_behind = trained == {PRETRAINING}  # only what follows the encoder was trained
    tensors = weights_of(model.network_).items()
    if trained:
        note_produced({k: v for k, v in tensors if not (is_behind and k.startswith("encoder."))})


def _saved_sources(provenance: Provenance) -> list[SavedSource]:
    return [SavedSource(s.basis, s.name, s.marks, s.covers) for s in provenance.sources]


def _provenance(sources: list[SavedSource]) -> Provenance:
    return Provenance(
        tuple(Source(cast(Basis, s.basis), s.name, s.marks, s.covers) for s in sources)
    )
