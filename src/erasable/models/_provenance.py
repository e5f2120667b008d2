"""What a network's weights were trained on, and so how far forgetting a row reaches.

A model records what its weights saw. The record travels with the network, is tied to its weights by
their digest, and is only ever trusted in the safe direction: weights that changed since, a record
that is missing, or a key that is not at hand count as "may have seen everything".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import nn

from erasable.errors import StateError, listing
from erasable.memory import CONTENT, ID, Marks, forms_of
from erasable.store import Basis, Level
from erasable.typing import RowId
from erasable.weights import weights_digest, weights_of

ATTRIBUTE = "_erasable_provenance"


@dataclass(frozen=True)
class Source:
    """One thing the weights were trained on.

    Attributes:
        basis: ``recorded``: rows that training saw, as keyed marks. ``declared``: a source the user
            names and vouches for. ``unknown``: anything at all.
        name: What to call it.
        marks: For ``recorded``: ids and contents of the rows.
    """

    basis: Basis
    name: str
    marks: Marks | None = None

    def may_hold(self, row_id: RowId, content: bytes | None) -> bool:
        """Tell whether a row may have been among the data; if nobody can tell, it may."""
        if self.basis == "declared":
            return False
        if self.marks is None or self.marks.missing_keys:
            return True
        has_id = any(self.marks.has(ID, form) for form in forms_of(row_id))
        return has_id or (content is not None and self.marks.has(CONTENT, content))


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

    def level(
        self, rows: Iterable[tuple[RowId, bytes | None]], *, is_complete: bool = True
    ) -> tuple[Level, Basis]:
        """Return the level at which a request for rows (id, content) is honoured, and how we know.

        The level of a request is that of its weakest row.

        Args:
            rows: The rows that were asked for, also those that are not in the memory.
            is_complete: Whether these are all: a group or class that is not in the memory may have
                had rows that nobody knows of now.
        """
        wanted = list(rows)
        suspects = [s for s in self.sources if any(s.may_hold(*row) for row in wanted)]
        if not wanted or not is_complete:
            suspects = [source for source in self.sources if source.basis != "declared"]
        if not suspects:
            is_declared = any(source.basis == "declared" for source in self.sources)
            return "exact", "declared" if is_declared else "recorded"
        is_recorded = any(s.basis == "recorded" and _can_tell(s) for s in suspects)
        return "memory", "recorded" if is_recorded else "unknown"


def declared(source: str) -> Provenance:
    """Return the record of weights of which somebody vouches that they saw a public source only."""
    return Provenance((Source("declared", source),))


UNKNOWN = Provenance((Source("unknown", "weights of unknown origin"),))


def record_rows(name: str, ids: Sequence[RowId] | None, contents: Sequence[bytes]) -> Source:
    """Return the record of training on rows, kept as keyed marks of ids, if any, and contents."""
    marks = Marks()
    for row_id in ids or []:
        marks.add(ID, forms_of(row_id)[0])
    for content in contents:
        marks.add(CONTENT, content)
    return Source("recorded", name, marks)


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


def _can_tell(source: Source) -> bool:
    return source.marks is not None and not source.marks.missing_keys
