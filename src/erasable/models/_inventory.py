"""What a model holds, and what each part of it tells of rows that were forgotten.

Three kinds of things can be reached from a model. Its *state* is what a model that never stored the
forgotten rows has, too: settings, weights and live rows. Its *history* is what may differ between
the two; this is the whole list, with what each field reveals. A *cache* is made of the state, and
can be made again at any time. A test walks real models and refuses what stands nowhere here.
"""

from enum import StrEnum

from sklearn.base import BaseEstimator
from torch import nn

from erasable.models._stateless import RECORD
from erasable.training import Training


class Part(StrEnum):
    """What a field is part of."""

    STATE = "state"
    """What a model that never stored the forgotten rows has, too."""

    HISTORY = "history"
    """What may tell of the past; `HISTORY` and `SAVED_HISTORY` say what."""

    CACHE = "cache"
    """What is made of the state, and could be made again."""


STATE = frozenset(
    {
        "ClassSums._counts",
        "ClassSums._grid",
        "ClassSums._labels",
        "ClassSums._sums",
        "Grid.bits",
        "LiveRows.dim",
        "LiveRows.grid",
        "LiveRows.sums",
        "LiveRows.table",
        "LtHash._state",
        "Memory._dim",
        "Memory._grid",
        "Memory._hash",
        "Memory._live",
        "MemoryModel.memory_",
        "NeighboursReduction._k",
        "NeighboursReduction._search",
        "NetworkModel.feature_names_in_",
        "NetworkModel.input_shape_",
        "NetworkModel.n_features_in_",
        "NetworkModel.network_",
        "RowInfo.content",
        "RowInfo.groups",
        "RowInfo.id",
        "RowTable._embeddings",
        "RowTable._in_group",
        "RowTable._infos",
        "SPMGenerator.built_",
    }
)
"""Fields of the state, by class; parameters, and what a network is made of, belong to it, too."""

_ORDER = (
    "How rows and classes are arranged in the process: which places were emptied and filled again, "
    "and how many rows and classes there have been at once at most. It is not saved."
)

HISTORY = {
    "ClassSums._free": _ORDER,
    "ClassSums._is_in_order": _ORDER,
    "ClassSums._order": _ORDER,
    "ClassSums._slot_of": _ORDER,
    "SPMGenerator.numbers_": (
        "For a generator that is told classes by number, which numbers are free: that there were "
        "other classes, without their names."
    ),
    "KNNClassifier.chosen_": (
        "The part of the training record that `tune` added: the rows that k was chosen by."
    ),
    "KNNClassifier.k_scores_": "How accurate each k was on the rows of `tune`. It is not saved.",
    "Memory._next_id": "How many ids were generated, those of forgotten rows included.",
    "Memory._next_serial": "How many rows were ever stored.",
    "Memory._tombstones": (
        "With the key: whether a given id, group or input was forgotten, when, and at which level; "
        "and whether marks were ever taken out. Without the key: how many marks there are, and "
        "when and at which level they were made."
    ),
    "MemoryClassifier.adaptation_": (
        "The accuracy on the rows of `fit` before and after training. It is not saved."
    ),
    "MemoryModel._data": (
        "Which data set the rows were read from, how it was split, and how many rows and classes "
        "there were then."
    ),
    "MemoryModel.copies_": "Where caches, checkpoints and pages were written that held rows.",
    "MemoryModel.doubts_": "Why it could not be checked when it was loaded. It is not saved.",
    "MemoryModel.is_verified_": "Whether it could be checked then. It is not saved.",
    "MemoryModel.places_": "Where the model was saved, and how often it was changed there.",
    "MemoryModel.receipts_": (
        "Receipts that are not on disk yet: the digest of the rows before a forget tells whoever "
        "has all other rows whether a guess of the forgotten one is right. They are not saved with "
        "the model."
    ),
    "NetworkModel.input_kind_": (
        "In which of six forms the first rows came, such as bytes. One row can decide it."
    ),
    "NetworkModel.history_": (
        "Losses in training, averaged over rows that may be forgotten now. They are not saved."
    ),
    "RowInfo.serial": "The order in which the live rows came, and how many came between them.",
    "RowInfo.slot": _ORDER,
    "RowTable._position": _ORDER,
    "RowTable._slots": _ORDER,
    "Module._erasable_provenance": (
        "What the weights were trained on. With the key: whether a given id, group, class or input "
        "was among it. Without the key: how many marks there are."
    ),
}
"""Fields that may tell of forgotten rows, by class, and what they reveal."""

CACHES = {
    "ClassSums._means": "Class means, made of the sums.",
    "LiveRows._followers": (
        "What a reduction or a set encoder keeps of the rows. It follows each change, an audit "
        "compares it with the same made anew, and it is not saved."
    ),
    "LiveRows._builder": "A lock; it holds nothing.",
    "LiveRows.lock": "A lock; it holds nothing.",
    "LtHash._hex": "The digest as text, made of its state.",
    "RowTable._other_forms": "Other forms of the text of live ids and groups, to find them by.",
}
"""Fields that are made of the state, by class."""

SAVED_STATE = frozenset(
    {
        "class_count",
        "encoder",
        "feature_names",
        "input_shape",
        "kind",
        "model.dim",
        "model.digest",
        "model.grid_bits",
        "model.weights",
        "network",
        "parameters",
        "rows.content",
        "rows.embedding",
        "rows.groups",
        "rows.id",
        "rows.label",
        "weights",
    }
)
"""Fields of a saved model, of its configuration or its file of rows, that belong to the state."""

SAVED_HISTORY = {
    "copies": HISTORY["MemoryModel.copies_"],
    "data": HISTORY["MemoryModel._data"],
    "erasable": "Which version wrote the model.",
    "input_kind": HISTORY["NetworkModel.input_kind_"],
    "known": HISTORY["SPMGenerator.numbers_"],
    "model.config": "The configuration, whose fields are listed here by themselves.",
    "model.identity": "A random name of the model, drawn at its first save.",
    "model.key_id": "Which key the model is sealed with.",
    "model.mac": "A seal over the rest of the file; it tells nothing that the file does not.",
    "model.next_id": HISTORY["Memory._next_id"],
    "model.record_digest": (
        "A digest of contents, tombstones and training record as they are in the file: it tells "
        "nothing that they do not."
    ),
    "model.revision": "How often the model was changed and saved.",
    "rows.serial": HISTORY["RowInfo.serial"],
    "seen": HISTORY["Module._erasable_provenance"],
    "sources": "The names of what the weights were trained on.",
    "tombstones": HISTORY["Memory._tombstones"],
    "unswept": "Whether rows were deleted since the file was last written anew.",
}
"""Fields of a saved model that may tell of forgotten rows, and what they reveal."""


def part_of(owner: object, attribute: str) -> Part | None:
    """Tell what a field of an object is part of; None if nobody has declared it."""
    if isinstance(owner, nn.Module) and attribute != RECORD:
        return Part.STATE
    if isinstance(owner, (BaseEstimator, Training)) and attribute in owner.get_params(deep=False):
        return Part.STATE
    names = {f"{kind.__name__}.{attribute}" for kind in type(owner).__mro__}
    for part, known in ((Part.STATE, STATE), (Part.HISTORY, HISTORY), (Part.CACHE, CACHES)):
        if not names.isdisjoint(known):
            return part
    return None


def saved_part_of(name: str) -> Part | None:
    """Tell what a field of a saved model is part of; None if nobody has declared it.

    Args:
        name: A key of the configuration, or a table and its column, as in ``rows.id``.
    """
    names = {name, name.partition(".")[0]}
    if not names.isdisjoint(SAVED_HISTORY):
        return Part.HISTORY
    return Part.STATE if name in SAVED_STATE else None
