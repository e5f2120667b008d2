"""A model with a memory as a directory, and back."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from torch import nn

from erasable._extras import require_diffusion
from erasable._version import __version__
from erasable.encoders import ModuleEncoder, build_encoder
from erasable.errors import ArgumentError, StateError, StoreError, listing
from erasable.memory import Marks, keyring
from erasable.models._adapt import Start
from erasable.models._input_kind import as_kind
from erasable.models._networks import EmbeddingNorm
from erasable.models._probe import rest_of
from erasable.models._provenance import (
    CHOICE,
    PRETRAINING,
    UNKNOWN,
    Provenance,
    Source,
    vouched_for,
)
from erasable.store import Basis, ModelDirectory, SavedSource
from erasable.training import note_produced
from erasable.weights import load_weights, weights_of

if TYPE_CHECKING:
    from erasable.models._memory_classifier import MemoryClassifier
    from erasable.models._memory_model import MemoryModel

_GENERATOR = "SPMGenerator"
_NOT_SAVED = {"encoder", "encoder_options", "random_state", "device", "checkpoint", "verbose"}


@dataclass(frozen=True)
class Place:
    """Where a model was loaded from or saved to, and the state of the rows there."""

    path: Path
    generation: int
    revision: int


def save(model: "MemoryModel", path: Path, *, overwrite: bool) -> Place:
    """Write a model to a directory; return where its rows stand there.

    A directory that this model came from is brought up to date in one transaction. Any other model
    there is replaced only if ``overwrite`` says so, and what was forgotten there stays forgotten.
    """
    path = path.resolve()
    directory = ModelDirectory(path)
    digest = model.weights_digest
    place = model.places_.get(path)

    def commit(generation: int) -> None:
        directory.note_copies(model.copies_)  # before the rows are: none must go unknown
        directory.write_config(_config(model, digest, generation))
        directory.write_view(*model._view(digest))
        directory.clean(digest=digest)

    if place is not None and _is_at(place, directory, digest):
        _persist_keys(model)
        revision = directory.rows.update(
            model.memory,
            generation=place.generation,
            revision=place.revision,
            sources=_saved_sources(model.provenance_),
            commit=lambda: commit(place.generation),
        )
        return Place(path, place.generation, revision)
    _make_room(directory, overwrite)
    _persist_keys(model)
    generation = directory.rows.append(model.memory, _saved_sources(model.provenance_))
    directory.write_weights(weights_of(model.network_))
    directory.rows.keep_only(generation, commit=lambda: commit(generation))
    return Place(path, generation, 0)


def load(
    path: str | Path, *, encoder: nn.Module | None = None, allow_memory_level: bool = False
) -> Any:
    """Read a saved model.

    Args:
        path: The directory that `save` wrote.
        encoder: The network, if the model was made with one of your own modules; its weights are
            replaced by the saved ones. Models with a named encoder need none.
        allow_memory_level: Accept a network that does not encode each row by itself, as the
            classifiers' parameter of this name does.

    Raises:
        StoreError: If the directory is missing, damaged, or not a model.
    """
    directory = ModelDirectory(Path(path).resolve())
    config = directory.read_config()
    accepted = {"allow_memory_level": True} if allow_memory_level else {}
    try:
        return _read(directory, config, encoder, accepted)
    except StoreError:
        if directory.read_config() == config:
            raise
    # It was replaced while being read.
    return _read(directory, directory.read_config(), encoder, accepted)


def _read(
    directory: ModelDirectory,
    config: dict[str, Any],
    encoder: nn.Module | None,
    accepted: dict[str, Any],
) -> "MemoryModel":
    try:
        generation = int(config["generation"])
        model = _build_any(config, encoder)
        model.input_kind_ = as_kind(config.get("input_kind"))
    except StateError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise StoreError(
            f"Expected a complete config.json in {directory.path}, but: {error!r}."
        ) from error
    try:
        load_weights(model.network_, directory.read_weights(config.get("weights")))
    except ArgumentError as error:
        raise StoreError(
            f"Expected weights in {directory.path} that fit its encoder, but: {error}"
        ) from error
    saved = directory.rows.read(generation)
    model.memory_ = saved.memory
    model._record(_provenance(saved.sources))
    _note_trained(model)
    if accepted.keys() <= model.get_params().keys():
        model.set_params(**accepted)
    model._readmit(config)
    place = Place(directory.path, saved.generation, saved.revision)
    model.places_ = {place.path: place}
    model.copies_ = directory.copies()
    model.data_ = config.get("data")
    return model


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
    parameters = {k: v for k, v in config["parameters"].items() if k not in _NOT_SAVED}
    model = kinds[config["kind"]](chosen, encoder_options=options or None, **parameters)
    model.input_shape_ = tuple(config["input_shape"])
    if len(model.input_shape_) == 1:
        model.n_features_in_ = model.input_shape_[0]
    if config["feature_names"]:
        model.feature_names_in_ = config["feature_names"]
    built = build_encoder(
        model._own_encoder(), model.input_shape_, options=options or None, is_blank=True
    )
    model._adopt(model._network(Start(built, UNKNOWN), seed=0).eval(), Marks(), dim=built.dim)
    model._check_parameters()
    fitted = model.get_params(deep=False)
    as_built = {k: v for k, v in config["network"].items() if v is not None}
    network = model.set_params(**as_built)._network(Start(built, UNKNOWN), seed=0)
    model.set_params(**{name: fitted[name] for name in as_built})
    model._adopt(network.eval(), Marks(), dim=built.dim)
    return model


def _is_at(place: Place, directory: ModelDirectory, digest: str) -> bool:
    """Tell whether a directory still holds the model that was read from or written to it."""
    if place.path != directory.path or not directory.exists:
        return False
    config = directory.read_config()
    return (config.get("weights"), config.get("generation")) == (digest, place.generation)


def _config(model: "MemoryModel", digest: str, generation: int) -> dict[str, Any]:
    parameters = model.get_params(deep=False)
    return {
        "kind": type(model).__name__,
        "erasable": __version__,
        "weights": digest,
        "generation": generation,
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
    if isinstance(value, (list, tuple)):
        return [_plain(one, is_path=False) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def _set_encoder_name(model: "MemoryClassifier") -> str:
    set_encoder = model.network_.set_encoder
    return "none" if set_encoder is None else set_encoder.name


def _make_room(directory: ModelDirectory, overwrite: bool) -> None:
    if directory.exists:
        if not overwrite:
            raise StoreError(
                f"Expected a new directory, but {directory.path} already holds a model. Choose "
                "another one, or pass overwrite=True to replace it."
            )
        directory.read_config()
    elif not directory.is_free:
        raise StoreError(
            f"Expected a new or empty directory, but {directory.path} holds other files."
        )
    directory.path.mkdir(parents=True, exist_ok=True)


def _persist_keys(model: "MemoryModel") -> None:
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
    return [SavedSource(s.basis, s.name, s.marks) for s in provenance.sources]


def _provenance(sources: list[SavedSource]) -> Provenance:
    return Provenance(tuple(Source(cast(Basis, s.basis), s.name, s.marks) for s in sources))
