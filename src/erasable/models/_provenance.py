"""What a network's weights were trained on, and so how far forgetting a row reaches.

A model records what its weights saw. The record travels with the network, is tied to its weights by
their digest, and is only ever trusted in the safe direction: weights that changed since, a record
that is missing, or a key that is not at hand count as "may have seen everything".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from erasable.errors import ArgumentError, StateError, listing
from erasable.memory import (
    CLASS,
    CONTENT,
    GROUP,
    ID,
    Marks,
    content_parts,
    encode_key,
    forms_of,
    has_forms,
)
from erasable.models._fingerprint import UnreadableError, fingerprint, held_tensors
from erasable.models._overlap import data_of, is_row_of, names_data
from erasable.models._stateless import RECORD, surroundings, unknown_parts
from erasable.store import Basis
from erasable.training import produced_here
from erasable.typing import Group, Label, RowId
from erasable.weights import weights_digest, weights_of

KINDS = frozenset({ID, CONTENT, GROUP, CLASS})
"""Everything that a training record keeps of a row."""


@dataclass(frozen=True)
class Source:
    """One thing the weights were trained on, or something about the model was chosen by.

    Attributes:
        basis: ``recorded``: rows that training saw, as keyed marks. ``declared``: a source the user
            names and vouches for. ``unknown``: anything at all.
        name: What to call it.
        marks: For ``recorded``: ids, contents, groups and classes of the rows.
        covers: Which of them were recorded. What was not cannot be ruled out.
    """

    basis: Basis
    name: str
    marks: Marks | None = None
    covers: frozenset[str] = KINDS

    def may_hold(self, row_id: RowId, content: bytes | None) -> bool:
        """Tell whether a row may have been among the data; if nobody can tell, it may."""
        if self.basis == "declared":
            return is_row_of(self.name, row_id)
        if self.marks is None or self.marks.missing_keys:
            return True
        has_id = any(self.marks.has(ID, form) for form in forms_of(row_id))
        if has_id or content is None:
            return has_id
        return self.marks.has_content(content) or (self._knows_forms and not has_forms(content))

    def may_hold_group(self, group: Group) -> bool:
        """Tell whether a row of a group may have been among the data, live now or gone."""
        return self._may_hold_any(GROUP, group)

    def may_hold_class(self, label: Label) -> bool:
        """Tell whether a row of a class may have been among the data, live now or gone."""
        return self._may_hold_any(CLASS, label)

    def holds(self, kind: str, value: Label) -> bool:
        """Tell whether an id, group or class is on record; False also where nobody can tell."""
        marks = self.marks
        return marks is not None and any(marks.has(kind, form) for form in forms_of(value))

    @property
    def can_tell(self) -> bool:
        """Whether rows can be recognised in the record."""
        return self.marks is not None and not self.marks.missing_keys

    @property
    def _knows_forms(self) -> bool:
        """Whether inputs are on record in all their forms: since classes are, they are, too.

        A row that an earlier version stored is known in one form; another may be on record.
        """
        return CLASS in self.covers

    def _may_hold_any(self, kind: str, value: Label) -> bool:
        if self.basis == "declared":
            return False
        return not self.can_tell or kind not in self.covers or self.holds(kind, value)


@dataclass(frozen=True)
class Provenance:
    """Everything the weights were trained on; no source means they were only drawn at random."""

    sources: tuple[Source, ...] = ()

    def plus(self, source: Source) -> "Provenance":
        """Return the record after training on one more source."""
        return Provenance((*self.sources, source))

    def joined(self, other: "Provenance") -> "Provenance":
        """Return the record of weights that may have seen what either record names."""
        return Provenance((*self.sources, *(s for s in other.sources if s not in self.sources)))


def declared(source: str) -> Provenance:
    """Return the record of weights of which somebody vouches that they saw a public source only."""
    return Provenance((Source("declared", source),))


UNKNOWN = Provenance((Source("unknown", "weights of unknown origin"),))
UNVERIFIED = Source("unknown", "a saved model that nobody could verify")
CHOICE = "rows that k was chosen by"
PRETRAINING = "public rows of pretrain"
"""Names of sources that encoders were not trained on."""


def record_rows(
    name: str,
    ids: Sequence[RowId] | None,
    contents: Sequence[bytes],
    *,
    groups: Iterable[Iterable[Group]] | None,
    labels: Iterable[Label],
) -> Source:
    """Return the record of training on rows, kept as keyed marks.

    Args:
        name: What to call the rows.
        ids: Their ids, if they have any.
        contents: Digests of their inputs.
        groups: Per row its groups; None if nobody said: then any row may be of any group.
        labels: Their labels.
    """
    marks, covers = Marks(), KINDS if groups is not None else KINDS - {GROUP}
    for kind, values in (
        (ID, ids or []),
        (GROUP, {group for some in groups or () for group in some}),
        (CLASS, {encode_key(label): label for label in labels}.values()),
    ):
        for value in values:
            marks.add(kind, forms_of(value)[0])
    for part in {part for content in contents for part in content_parts(content)}:
        marks.add(CONTENT, part)
    return Source("recorded", name, marks, covers)


def attach(network: nn.Module, provenance: Provenance) -> None:
    """Tie a record to a network, to the weights it has now, and to all else that it holds."""
    setattr(network, RECORD, (weights_digest(network), provenance, _rest_of(network)))


def recorded(network: nn.Module) -> Provenance | None:
    """Return the record that is tied to a network, whether or not it still holds."""
    found = getattr(network, RECORD, None)
    record: Provenance | None = None if found is None else found[1]
    return record


def provenance_of(network: nn.Module, *, digest: str | None = None) -> Provenance:
    """Return what is known of a network's weights; a stale or missing record counts as unknown.

    Only of a network that is made of known parts (see `unknown_parts`) can it be known that it
    learns nothing by encoding. Any other network is of unknown origin, unless somebody vouches for
    it and it has held the same since.

    Args:
        network: The network.
        digest: Digest of its present weights, if the caller has it already.
    """
    around = surroundings()
    if around:
        return _unknown(around[0])
    found = getattr(network, RECORD, None)
    odd = next(unknown_parts(network), None)
    if found is None and weights_of(network):
        return UNKNOWN
    if found is None:
        return Provenance() if odd is None else _unknown(odd)
    provenance: Provenance
    seen, provenance, rest = found
    if seen != (digest or weights_digest(network)):
        return UNKNOWN
    if odd is None or (vouched_for(provenance) and rest is not None and rest == _rest_of(network)):
        return provenance
    return provenance.joined(_unknown(odd))


def _unknown(reason: str) -> Provenance:
    """Return the record of an encoder that may learn by encoding."""
    return Provenance((Source("unknown", f"an encoder that may learn: {reason}"),))


def vouched_for(known: Provenance) -> bool:
    """Tell whether somebody states what the weights were trained on, and nothing is unknown."""
    bases = {source.basis for source in known.sources}
    return "declared" in bases and "unknown" not in bases


def without_overlap(known: Provenance, data: Mapping[str, Any] | None) -> Provenance:
    """Return a record in which a declared source that the rows are of counts as unknown.

    Args:
        known: The record.
        data: What a model records of the data set that its rows come from.
    """
    name = (data or {}).get("name")
    if not isinstance(name, str):
        return known
    return Provenance(
        tuple(
            Source("unknown", f"{source.name}, which the rows are of, too")
            if source.basis == "declared" and names_data(source.name, name)
            else source
            for source in known.sources
        )
    )


def without_rows(known: Provenance, ids: Iterable[RowId]) -> Provenance:
    """Return a record in which a declared source that rows with these ids are of is unknown."""
    if any(source.basis == "declared" for source in known.sources):
        for name in {name for name in map(data_of, ids) if name is not None}:
            known = without_overlap(known, {"name": name})
    return known


def declare(network: nn.Module, source: str, *, overlap: bool = False) -> nn.Module:
    """State that a network's present weights were trained on a public source and nothing else.

    Rows then forgotten are reported ``exact`` on the basis ``declared``: the statement is yours.

    Args:
        network: The network; it is returned as it is.
        source: What it was trained on, for instance ``"ImageNet-1k"``. Rows of a data set that the
            source names are not exact.
        overlap: Whether the source may hold rows that are to be forgotten, or the network was
            trained here. Then no row is exact.

    Raises:
        StateError: If the library itself has trained these weights, or a part of them, and so
            knows better.
    """
    if not isinstance(source, str) or not source.strip():
        raise ArgumentError(f"Expected the name of a source, but got {source!r}.")
    tensors = {**_hidden_in(network), **_tensors_of(network)}
    records = [getattr(module, RECORD, None) for module in network.modules()]
    known = [one for record in records if record for one in record[1].sources]
    recorded = {one.name: one for one in known if one.basis == "recorded"}
    if overlap:
        stated = Source("unknown", f"{source}, which may hold the same rows")
        attach(network, Provenance((*recorded.values(), stated)))
        return network
    if recorded:
        raise StateError(
            "Expected a network whose training is not on record, but this one, or a part of it, "
            f"was trained here: on {listing(recorded)}. {_REMEDY}"
        )
    produced = produced_here(tensors)
    if produced:
        raise StateError(
            "Expected a network that was not trained here, but these weights were produced by a "
            f"training in this process, or are in a model that was loaded: {listing(produced)}. "
            f"{_REMEDY}"
        )
    attach(network, declared(source))
    return network


_REMEDY = "Pass overlap=True to name the source all the same; then no row is exact."


def _tensors_of(network: nn.Module) -> dict[str, Tensor]:
    try:
        return weights_of(network)
    except ValueError:
        raise StateError(
            "Expected a network whose weights have their sizes, but it has lazy modules. Encode a "
            "batch first."
        ) from None


def _hidden_in(network: nn.Module) -> dict[str, Tensor]:
    try:
        return held_tensors(network)
    except UnreadableError:
        return {}


def _rest_of(network: nn.Module) -> str | None:
    """Return a digest of what a network holds besides weights; None where it is of known parts.

    None also where it cannot be read; then no statement about it can be checked, so none counts.
    """
    if not any(unknown_parts(network)):
        return None
    try:
        return fingerprint(network)
    except UnreadableError:
        return None
