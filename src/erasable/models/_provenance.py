"""What a network's weights were trained on, and so how far forgetting a row reaches.

A model records what its weights saw. The record travels with the network, is tied to its weights by
their digest, and is only ever trusted in the safe direction: weights that changed since, a record
that is missing, or a key that is not at hand count as "may have seen everything".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import nn

from erasable.errors import StateError, listing
from erasable.memory import CLASS, CONTENT, GROUP, ID, Marks, encode_key, forms_of
from erasable.store import Basis
from erasable.typing import Group, Label, RowId
from erasable.weights import weights_digest, weights_of

ATTRIBUTE = "_erasable_provenance"


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
            return False
        if self.marks is None or self.marks.missing_keys:
            return True
        has_id = any(self.marks.has(ID, form) for form in forms_of(row_id))
        return has_id or (content is not None and self.marks.has(CONTENT, content))

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
    for content in contents:
        marks.add(CONTENT, content)
    return Source("recorded", name, marks, covers)


def attach(network: nn.Module, provenance: Provenance) -> None:
    """Tie a record to a network and to the weights it has now."""
    setattr(network, ATTRIBUTE, (weights_digest(network), provenance))


def provenance_of(network: nn.Module, *, digest: str | None = None) -> Provenance:
    """Return what is known of a network's weights; a stale or missing record counts as unknown.

    A network that consists of torch's or this library's own modules and has no weights has nothing
    to have learnt with; any other module may hide what it learnt.

    Args:
        network: The network.
        digest: Digest of its present weights, if the caller has it already.
    """
    if _is_blank(network):
        return Provenance()
    found = getattr(network, ATTRIBUTE, None)
    if found is None or found[0] != (digest or weights_digest(network)):
        return UNKNOWN
    provenance: Provenance = found[1]
    return provenance


def declare(network: nn.Module, source: str) -> nn.Module:
    """State that a network's present weights were trained on a public source and nothing else.

    Rows then forgotten are reported ``exact`` on the basis ``declared``: the statement is yours.

    Args:
        network: The network; it is returned as it is.
        source: What it was trained on, for instance ``"ImageNet-1k"``.

    Raises:
        StateError: If the library itself has trained these weights, and so knows better.
    """
    records = [getattr(module, ATTRIBUTE, None) for module in network.modules()]
    sources = [source for record in records if record for source in record[1].sources]
    trained_here = {source.name: None for source in sources if source.basis == "recorded"}
    if trained_here:
        raise StateError(
            "Expected a network whose training is not on record, but this one, or a part of it, "
            f"was trained here: on {listing(trained_here)}."
        )
    attach(network, declared(source))
    return network


def _is_blank(network: nn.Module) -> bool:
    """Tell whether nothing in a network could have learnt: no weights, and no foreign module."""
    ours = ("torch.nn.modules.", "erasable.")
    is_known = all(type(module).__module__.startswith(ours) for module in network.modules())
    return is_known and not weights_of(network)
