import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.memory import ExactSearch, Grid, LiveRows, Neighbours, Record, encode_key
from erasable.memory._neighbours import keep_nearest, rounded

STEP = Grid().step


def live_of(units, *, ids=None, grid=None):
    """Return rows given in grid units."""
    grid = grid or Grid()
    units = np.array(units, np.int32).reshape(len(units), -1)
    live = LiveRows(units.shape[1], grid)
    ids = range(len(units)) if ids is None else ids
    records = [Record(row_id, "x", (), None, serial) for serial, row_id in enumerate(ids)]
    live.append(grid.values(units), records)
    return live


def nearest(live, queries, k, **options):
    """Search with queries in grid units; return per query its ids, and its squares."""
    queries = np.array(queries, np.float64).reshape(-1, live.dim) * live.grid.step
    return shown(live, ExactSearch().nearest(live, queries, k, **options))


def shown(live, found):
    ids = [
        frozenset(live.table.infos[place].id for place in places if place >= 0)
        for places in found.positions.tolist()
    ]
    return ids, found.squares.tolist()


def slow(live, queries, k, exclude=None):
    """Compare every row with every query in Python integers."""
    rows = live.grid.units(live.table.embeddings).tolist()
    ids, squares = [], []
    for number, query in enumerate(queries):
        own = -1 if exclude is None else exclude[number]
        every = sorted(
            (sum((a - int(b)) ** 2 for a, b in zip(row, query, strict=True)), encode_key(info.id))
            for place, (row, info) in enumerate(zip(rows, live.table.infos, strict=True))
            if place != own
        )
        best = every[:k]
        names = {encode_key(info.id): info.id for info in live.table.infos}
        ids.append(frozenset(names[key] for _, key in best))
        missing = min(k, len(rows)) - len(best)
        squares.append([float(square) for square, _ in best] + [math.inf] * missing)
    return ids, squares


@st.composite
def scenes(draw, *, size=200, reach=2):
    """Draw rows and queries with few values, so that copies and ties are everywhere."""
    dim, rows, queries = (draw(st.integers(1, top)) for top in (4, size, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    ids = [row_id if row_id % 3 else str(row_id) for row_id in rng.permutation(rows).tolist()]
    live = live_of(rng.integers(-reach, reach + 1, (rows, dim)), ids=ids)
    asked = rng.integers(-reach, reach + 1, (queries, dim)).tolist()
    return live, asked, draw(st.integers(1, rows + 3))


# -- against the slow reference ------------------------------------------------------------------


@given(scenes())
def test_the_nearest_rows_are_those_of_a_comparison_in_integers(scene):
    live, queries, k = scene
    assert nearest(live, queries, k) == slow(live, queries, k)


@given(scenes(), st.data())
def test_an_excluded_row_is_left_out_and_nothing_else(scene, data):
    live, queries, k = scene
    places = st.lists(st.integers(-1, len(live) - 1), min_size=len(queries), max_size=len(queries))
    exclude = data.draw(places)
    assert nearest(live, queries, k, exclude=np.array(exclude)) == slow(live, queries, k, exclude)


@given(scenes(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(scene, random):
    live, queries, k = scene
    order = random.sample(range(len(live)), len(live))
    units = live.grid.units(live.table.embeddings)[order]
    shuffled = live_of(units, ids=[live.table.infos[place].id for place in order])
    assert nearest(shuffled, queries, k) == nearest(live, queries, k)


@given(scenes())
def test_a_query_does_not_see_the_others(scene):
    live, queries, k = scene
    ids, squares = nearest(live, queries, k)
    for number, query in enumerate(queries):
        assert nearest(live, [query], k) == ([ids[number]], [squares[number]])


def test_ties_at_the_last_place_go_to_the_smaller_encoded_id():
    live = live_of([[1], [1], [-1], [0], [1]], ids=["c", "a", 7, "b", "d"])
    assert nearest(live, [[0]], 3) == ([{"b", 7, "a"}], [[0.0, 1.0, 1.0]])


def test_copies_in_the_hundreds_are_settled_by_id_too():
    ids = [f"{number:03}" for number in np.random.default_rng(0).permutation(500)]
    found, _ = nearest(live_of([[5]] * 500, ids=ids), [[0]], 7)
    assert found == [{f"{number:03}" for number in range(7)}]


def test_neighbours_come_nearest_first():
    found = ExactSearch().nearest(live_of([[9], [1], [5]]), np.zeros((1, 1)), 3)
    assert found.positions.tolist() == [[1, 2, 0]]


def test_queries_are_rounded_to_the_grid_first():
    live = live_of([[0], [2]])
    found = ExactSearch().nearest(live, np.array([[0.9 * STEP]]), 2)
    assert found.squares.tolist() == [[1.0, 1.0]]


# -- edges -----------------------------------------------------------------------------------------


def test_one_row_is_everybodys_neighbour():
    assert nearest(live_of([[3, 4]]), [[0, 0], [3, 4]], 5) == ([{0}, {0}], [[25.0], [0.0]])


def test_one_row_that_is_excluded_leaves_no_neighbour():
    assert nearest(live_of([[3]]), [[0]], 1, exclude=np.array([0])) == ([set()], [[math.inf]])


@pytest.mark.parametrize(
    ("rows", "queries", "k", "shape"),
    [(3, 0, 2, (0, 2)), (3, 2, 0, (2, 0)), (0, 2, 3, (2, 0))],
    ids=["no queries", "no neighbours wanted", "no rows"],
)
def test_nothing_to_find_is_an_empty_answer(rows, queries, k, shape):
    live = LiveRows(2, Grid()) if not rows else live_of([[1, 2]] * rows)
    found = ExactSearch().nearest(live, np.zeros((queries, 2)), k)
    assert (found.positions.shape, found.squares.shape) == (shape, shape)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_query_that_is_no_point_has_no_neighbours_and_does_not_hang(value):
    live = live_of(np.arange(300)[:, None])
    found = ExactSearch().nearest(live, np.array([[value], [0.0]]), 2)
    assert found.positions.tolist() == [[-1, -1], [0, 1]]


# -- what float32 cannot tell apart ----------------------------------------------------------------


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 12))
def test_distances_that_float32_cannot_tell_apart_are_told_apart(seed, k, dim):
    rng = np.random.default_rng(seed)
    live = live_of(1_000_000 + rng.integers(-3, 4, (300, dim)))
    queries = (-1_000_000 + rng.integers(-3, 4, (3, dim))).tolist()
    assert nearest(live, queries, k) == slow(live, queries, k)


@given(st.integers(0, 2**32), st.integers(1, 60))
def test_one_long_row_does_not_spoil_the_others(seed, k):
    rng = np.random.default_rng(seed)
    live = live_of(np.vstack([np.full((1, 4), 2**20 - 1), rng.integers(-9, 10, (200, 4))]))
    queries = rng.integers(-9, 10, (3, 4)).tolist()
    assert nearest(live, queries, k) == slow(live, queries, k)


@pytest.mark.parametrize("gap", np.linspace(0.0, 0.04, 9))
def test_terms_lost_in_a_long_sum_do_not_hide_the_nearest_row(gap):
    # A matrix product that starts with 63.9² loses all 319 further terms of query · near, each just
    # below half a unit in the last place: near seems farther by about 0.078. FAISS uses one only if
    # queries · dim is 128,000 or more.
    query = np.full(320, 492)
    near = np.full(320, 65)
    query[0] = near[0] = round(63.9 / STEP)
    away = math.sqrt(319) * (492 - 65)

    def decoy(square):
        row = query.copy()
        row[-1] += math.ceil(math.sqrt(away**2 + square / STEP**2))
        return row

    rows = [decoy(0.001), *[decoy(0.047 + gap)] * 39, near, *[decoy(1.0)] * 24]
    queries = np.tile(query * STEP, (400, 1))
    found = ExactSearch().nearest(live_of(rows), queries, 1)
    assert np.unique(found.positions).tolist() == [40]


# -- candidates ----------------------------------------------------------------------------------


def kept(live, query, candidates, k, exclude=-1) -> Neighbours:
    queries = rounded(live, np.array([query]) * live.grid.step)
    return keep_nearest(live, queries, np.array([candidates]), k, exclude=np.array([exclude]))


def test_only_candidates_are_kept():
    found = kept(live_of([[0], [1], [2]]), [0.0], [2, 1], 2)
    assert (found.positions.tolist(), found.squares.tolist()) == ([[1, 2]], [[1.0, 4.0]])


def test_a_missing_candidate_is_not_the_last_row():
    assert kept(live_of([[5], [0]]), [0.0], [-1, 0], 2).positions.tolist() == [[0, -1]]


def test_excluded_candidates_do_not_count_as_ties():
    found = kept(live_of([[1], [1], [1]]), [0.0], [0, 1], 1, exclude=0)
    assert found.positions.tolist() == [[1]]


@pytest.mark.parametrize("value", [65.0, 5000.0, 1e30])
def test_a_query_far_outside_the_grid_still_has_neighbours(value):
    live = live_of(np.arange(10)[:, None])
    found = ExactSearch().nearest(live, np.array([[value]]), 2)
    assert found.positions.tolist() == [[9, 8]]


def test_ties_within_the_neighbours_are_in_the_order_of_ids():
    live = LiveRows(1, Grid())
    records = [Record(row_id, "x", (), None, n) for n, row_id in enumerate(["c", "a", "b"])]
    live.append(np.ones((3, 1), np.float32), records)
    found = ExactSearch().nearest(live, np.zeros((1, 1)), 3)
    assert [live.table.infos[p].id for p in found.positions[0]] == ["a", "b", "c"]
