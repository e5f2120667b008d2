"""What names rows: indexes of pandas, known by what they offer; pandas itself is not needed."""

from typing import Any

from erasable.errors import ArgumentError, listing
from erasable.memory import Memory

_ASK = "Pass ids= with one name per row."


def named_rows(X: Any, *, y: Any, ids: Any, groups: Any) -> tuple[Any, Any, Any]:
    """Return labels, ids and groups in the order of the inputs; ids from an index if not given.

    A default index (0…n−1) names nothing. Any other index of pandas names the rows.

    Args:
        X: Inputs.
        y: Labels.
        ids: Ids; None to take them from the index of the inputs or, if these have none, of the
            labels or groups.
        groups: Groups.

    Raises:
        ArgumentError: If the order of a column is uncertain, or an index cannot name rows.
    """
    y, ids, groups = in_order(X, y=y, ids=ids, groups=groups)
    owners = {"X": X, "y": y, "groups": groups}
    for name, owner in owners.items() if ids is None else ():
        index = _index_of(owner)
        if index is not None:
            return y, None if _is_default(index) else _names(index, name), groups
    return y, ids, groups


def in_order(X: Any, **columns: Any) -> tuple[Any, ...]:
    """Return columns in the order of the inputs' index, or else of the first column's.

    Args:
        X: Inputs.
        **columns: Columns by their names in the call, each with one value per input, or None.

    Raises:
        ArgumentError: If a column is a table, only numbers its rows, or has an index that does not
            say for certain which of its values belongs to which input.
    """
    for name, values in columns.items():
        if name != "y":  # a table of labels is refused where labels are read
            require_names(name, values)
    given = {"X": X, **columns}
    first = next((name for name, one in given.items() if _index_of(one) is not None), "X")
    order = _index_of(given[first])
    return tuple(
        values if _index_of(values) is None else _in_order(name, values, first, order)
        for name, values in columns.items()
    )


def selectors(memory: Memory, *, ids: Any, groups: Any, classes: Any) -> dict[str, Any]:
    """Return what a request names, as arguments of ``memory.select``.

    Raises:
        ArgumentError: If one is a table, or an index that only numbers the rows of its table.
    """
    return {
        "ids": require_names("ids", ids, counted=memory.next_id),
        "groups": require_names("groups", groups),
        "classes": require_names("classes", classes),
    }


def require_names(name: str, values: Any, *, counted: int = 0) -> Any:
    """Return names as they are; refuse a table, and an index that only numbers its rows.

    Args:
        name: What the names are called in the call.
        values: Ids, groups or classes.
        counted: Ids below were, or may have been, counted up by the memory as rows came. A part of
            a default index looks like such ids, but counts the rows of its own table.
    """
    if hasattr(values, "columns"):  # iterating over it gives the names of its columns
        raise ArgumentError(
            f"Expected {name} to be one column, but got a table. Pass one of its columns, or its "
            "index if that names the rows."
        )
    if _is_default(values):
        raise ArgumentError(
            f"Expected {name}, but got a default index (0…n−1), which only numbers the rows of its "
            "table. Pass the column that holds the names, or list(index) if the numbers are the "
            "names."
        )
    if counted and hasattr(values, "get_indexer"):
        doubtful = [one for one in values.tolist() if type(one) is int and 0 <= one < counted]
        if doubtful:
            raise ArgumentError(
                f"Expected {name}, but got an index with {listing(doubtful)}, which may only "
                "number the rows of its table: this model counted ids itself, in the order in "
                "which rows came. Pass list(index) if these are the model's ids."
            )
    return values


def _index_of(values: Any) -> Any:
    """Return the index of a table or column of pandas; None for anything else."""
    has_index = hasattr(values, "iloc") and hasattr(values, "index")
    return values.index if has_index else None


def _is_default(index: Any) -> bool:
    """Tell whether this is the index that pandas gives to rows that nobody named."""
    is_range = all(hasattr(index, name) for name in ("start", "step", "get_indexer"))
    return is_range and index.start == 0 and index.step == 1


def _in_order(name: str, values: Any, first: str, order: Any) -> Any:
    index = values.index
    if index.equals(order):
        return values
    is_named = not (_is_default(index) or _is_default(order))
    if is_named and index.is_unique and order.is_unique and len(index) == len(order):
        places = index.get_indexer(order)
        if (places >= 0).all():
            return values.iloc[places]
    raise ArgumentError(
        f"Expected {name} with the index of {first}, but the two differ, so it is uncertain which "
        f"value belongs to which row. Pass {name}.loc[{first}.index] to match by index, or "
        f"{name}.to_numpy() if both are in the same order."
    )


def _names(index: Any, owner: str) -> list[Any]:
    if not index.is_unique:
        twice = index[index.duplicated()].unique().tolist()
        raise ArgumentError(
            f"Expected the index of {owner} to name each row, but these names are there more than "
            f"once: {listing(twice)}. {_ASK}"
        )
    names: list[Any] = index.tolist()
    odd = [name for name in names if type(name) not in (str, int)]
    if odd:
        raise ArgumentError(
            f"Expected the index of {owner} to name rows by text or whole numbers, but got "
            f"{listing(odd)}. {_ASK}"
        )
    return names
