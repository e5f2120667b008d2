import contextlib
import copy

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable.errors import ArgumentError
from erasable.memory import ExactSearch, Grid, LiveRows, Memory, Record, encode_key
from erasable.memory._codebooks import Centroids, draw_sample, hash_id, lists_for
from erasable.memory._quantized import CodeIndex, ProductCodes, QuantizedSearch

ROWS, DIM, K = 2000, 12, 8
SEARCH = QuantizedSearch(min_rows=1024)


def clustered(count, *, seed=0, dim=DIM):
    """Return points around forty centres, (count, dim)."""
    centres = 4 * np.random.default_rng(99).standard_normal((40, dim))
    rng = np.random.default_rng(seed)
    return centres[rng.integers(40, size=count)] + rng.standard_normal((count, dim)) / 2


def live_of(rows, ids=None):
    live = LiveRows(rows.shape[1], Grid())
    add(live, rows, range(len(rows)) if ids is None else ids)
    return live


def add(live, rows, ids, serials=None):
    if serials is None:
        first = max((info.serial for info in live.table.infos), default=-1) + 1
        serials = range(first, first + len(rows))
    records = [
        Record(row_id, "x", (), None, serial) for row_id, serial in zip(ids, serials, strict=True)
    ]
    live.append(live.grid.round(np.asarray(rows, np.float64))[0], records)


def remove(live, ids):
    places = live.table.positions(list(ids))
    infos = [live.table.infos[place] for place in places]
    live.remove(infos, live.grid.units(live.table.embeddings[places]))


def codes(live) -> ProductCodes:
    return live.follower("codes", ProductCodes)


def is_learned(live):
    return codes(live)._index is not None


def ids_at(live, positions):
    return [{live.table.infos[place].id for place in row if place >= 0} for row in positions]


def answers(live, queries=None, *, search=SEARCH, k=K, **options):
    """Return per query its ids, and its squares."""
    queries = clustered(20, seed=7, dim=live.dim) if queries is None else queries
    found = search.nearest(live, queries, k, **options)
    return ids_at(live, found.positions.tolist()), found.squares.tolist()


def content(live):
    """Return everything the index holds, by row id: the list and code of each row."""
    index = codes(live).index.codes
    names = {codes(live).index.key(info.serial): info.id for info in live.table.infos}
    found = {}
    for place in range(index.nlist):
        size = index.invlists.list_size(place)
        if size:
            keys = faiss.rev_swig_ptr(index.invlists.get_ids(place), size).tolist()
            data = faiss.rev_swig_ptr(index.invlists.get_codes(place), size * index.code_size)
            rows = data.reshape(size, -1).tolist()
            found |= {names[key]: (place, row) for key, row in zip(keys, rows, strict=True)}
    return found


def codebooks(live):
    index = codes(live).index
    residual = faiss.vector_to_array(index.codes.pq.centroids)
    return index._centroids.values.tobytes(), residual.tobytes(), index.sample.threshold


def split(live):
    """Return the ids of the sample, and those outside it."""
    sample = draw_sample(live.table.infos)
    inside = {live.table.infos[place].id for place in sample.positions}
    return sorted(inside), sorted({info.id for info in live.table.infos} - inside)


@pytest.fixture
def live():
    """Return rows that an index follows."""
    found = live_of(clustered(ROWS))
    assert len(content(found)) == ROWS
    return found


# -- what is found -------------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "k"), [(3, 1), (8, 8), (12, 20), (12, 60), (32, 8)])
def test_most_of_the_nearest_rows_are_found(dim, k):
    live = live_of(clustered(5000, dim=dim))
    queries = clustered(50, seed=7, dim=dim)
    found, _ = answers(live, queries, k=k)
    true, _ = answers(live, queries, k=k, search=ExactSearch())
    assert sum(len(a & b) for a, b in zip(found, true, strict=True)) >= 0.9 * 50 * k


def test_squares_are_exact(live):
    queries = clustered(20, seed=7)
    found = SEARCH.nearest(live, queries, K)
    units = live.grid.units(live.table.embeddings).astype(np.int64)[found.positions]
    asked = live.grid.units(live.grid.round(queries)[0]).astype(np.int64)
    assert found.squares.tolist() == ((units - asked[:, None]) ** 2).sum(axis=2).tolist()


def test_a_row_finds_itself_unless_excluded(live):
    queries, own = live.table.embeddings[:20].astype(np.float64), np.arange(20)
    with_it, _ = answers(live, queries)
    without, _ = answers(live, queries, exclude=own)
    assert all(row_id in found for row_id, found in zip(own, with_it, strict=True))
    assert not any(row_id in found for row_id, found in zip(own, without, strict=True))


def test_a_query_does_not_see_the_others(live):
    queries = clustered(1100, seed=3)
    ids, squares = answers(live, queries)
    for number in (0, 500, 1099):
        alone = answers(live, queries[[number]])
        assert alone == ([ids[number]], [squares[number]])


def test_a_query_that_finds_too_few_rows_compares_them_all(live):
    search = QuantizedSearch(min_rows=1024, lists=1)
    assert answers(live, k=120, search=search) == answers(live, k=120, search=ExactSearch())


def test_copies_beyond_the_candidates_are_settled_like_an_exact_search():
    ids = range(ROWS + 600, 0, -1)  # the copies that come first have the larger ids
    live = live_of(np.vstack([clustered(ROWS), np.ones((600, DIM))]), ids)
    queries = np.ones((1, DIM))
    assert answers(live, queries) == answers(live, queries, search=ExactSearch())


def test_no_queries_are_an_empty_answer(live):
    assert SEARCH.nearest(live, np.zeros((0, DIM)), K).positions.shape == (0, K)


def test_a_query_that_is_no_point_does_not_hang(live):
    queries = np.vstack([np.full((1, DIM), np.nan), clustered(1)])
    positions = SEARCH.nearest(live, queries, K).positions
    assert (positions[0] == -1).all()
    assert (positions[1] >= 0).all()


@pytest.mark.parametrize(
    ("rows", "k", "min_rows"),
    [(1999, K, 2000), (1027, K, 1024), (2000, 130, 1024), (2000, 0, 1024), (2000, 2000, 1024)],
    ids=["few rows", "few for 257", "a quarter wanted", "none wanted", "all wanted"],
)
def test_too_few_rows_for_an_index_are_all_compared(rows, k, min_rows):
    live = live_of(clustered(rows))
    search = QuantizedSearch(min_rows=min_rows)
    assert answers(live, search=search, k=k) == answers(live, search=ExactSearch(), k=k)
    assert live._followers == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidates": 0}, "Expected candidates to be an int of 1 or more, but got 0."),
        ({"lists": 2.0}, "Expected lists to be an int of 1 or more, but got 2.0."),
        ({"min_rows": 1023}, "Expected min_rows to be an int of 1024 or more, but got 1023."),
    ],
)
def test_wrong_settings_are_refused(options, message):
    with pytest.raises(ArgumentError) as error:
        QuantizedSearch(**options)
    assert message in str(error.value)


# -- the index follows the rows --------------------------------------------------------------------


def test_forgetting_outside_the_sample_keeps_the_index(live):
    index = codes(live).index
    remove(live, split(live)[1][:100])
    assert codes(live).index is index


def test_an_index_after_forgetting_holds_what_one_built_without_the_rows_holds(live):
    gone = split(live)[1][::2]
    remove(live, gone)
    kept = [row_id for row_id in range(ROWS) if row_id not in set(gone)]
    fresh = live_of(clustered(ROWS)[kept][::-1], kept[::-1])
    assert is_learned(live)
    assert content(live) == content(fresh)
    assert codebooks(live) == codebooks(fresh)
    assert answers(live) == answers(fresh)


def test_forgetting_a_row_of_the_sample_drops_the_index_at_once(live):
    remove(live, split(live)[0][500:501])
    assert not is_learned(live)


def test_codebooks_after_forgetting_are_those_of_rows_that_never_had_it(live):
    gone = split(live)[0][500]
    remove(live, [gone])
    kept = [row_id for row_id in range(ROWS) if row_id != gone]
    fresh = live_of(clustered(ROWS)[kept], kept)
    assert codebooks(live) == codebooks(fresh)
    assert content(live) == content(fresh)


def test_the_code_of_a_forgotten_row_is_gone(live):
    gone = split(live)[1][0]
    key = codes(live).index.key(live.table.infos[live.table.position(gone)].serial)
    remove(live, [gone])
    index = codes(live).index.codes
    assert index.ntotal == ROWS - 1
    assert gone not in content(live)
    with pytest.raises(RuntimeError, match="key not found"):
        index.reconstruct(key)


@pytest.mark.parametrize("order", [1, -1], ids=["in order", "backwards"])
def test_no_byte_of_a_forgotten_rows_code_stays_behind_the_end_of_its_list(live, order):
    index, outside = codes(live).index.codes, split(live)[1]
    place = max(range(index.nlist), key=index.invlists.list_size)
    size = index.invlists.list_size(place)
    data = faiss.rev_swig_ptr(index.invlists.get_codes(place), size * index.code_size)
    keys = faiss.rev_swig_ptr(index.invlists.get_ids(place), size)
    lists = content(live)
    for row_id in [row_id for row_id in outside if lists[row_id][0] == place][::order]:
        remove(live, [row_id])
    left = index.invlists.list_size(place)
    assert left < size - 3
    assert not data[left * index.code_size :].any()
    assert not keys[left:].any()


def test_a_row_added_outside_the_sample_is_encoded(live):
    index = codes(live).index
    new = next(i for i in range(ROWS, 9999) if hash_id(i) > index.sample.threshold)
    add(live, clustered(1, seed=5), [new])
    fresh = live_of(np.vstack([clustered(1, seed=5), clustered(ROWS)]), [new, *range(ROWS)])
    assert codes(live).index is index
    assert content(live) == content(fresh)
    assert answers(live, clustered(1, seed=5)) == answers(fresh, clustered(1, seed=5))


def test_a_row_that_enters_the_sample_drops_the_index(live):
    new = next(i for i in range(ROWS, 9999) if hash_id(i) < codes(live).index.sample.threshold)
    add(live, clustered(1, seed=5), [new])
    assert not is_learned(live)


@pytest.mark.parametrize("step", [-1, 1])
def test_a_power_of_four_is_where_the_number_of_lists_changes(step):
    start = 4096 if step < 0 else 4095
    live = live_of(clustered(start))
    answers(live)
    outside = split(live)[1]
    late = (i for i in range(start, 99_999) if hash_id(i) > codes(live).index.sample.threshold)
    if step < 0:
        remove(live, outside[:1])
    else:
        add(live, clustered(1), [next(late)])
    assert not is_learned(live)


def test_rows_whose_serials_do_not_go_up_drop_the_index(live):
    remove(live, split(live)[1][:2])
    late = [i for i in range(ROWS, 9999) if hash_id(i) > codes(live).index.sample.threshold]
    add(live, clustered(1), late[:1], serials=[ROWS + 5])
    assert is_learned(live)
    add(live, clustered(1, seed=1), late[1:2], serials=[ROWS + 4])
    assert not is_learned(live)
    assert content(live).keys() == {info.id for info in live.table.infos}


def test_a_memory_of_any_serials_has_an_index():
    live = LiveRows(DIM, Grid())
    serials = np.random.default_rng(0).permutation(2**40 + 10**9 * np.arange(ROWS)).tolist()
    add(live, clustered(ROWS), range(ROWS), serials=serials)
    answers(live)
    remove(live, split(live)[1][:50])
    assert is_learned(live)
    assert answers(live, k=60, search=QuantizedSearch(min_rows=1024, lists=999)) == answers(
        live, k=60, search=ExactSearch()
    )


@settings(max_examples=15)
@given(st.data())
def test_any_changes_lead_to_the_index_of_the_rows_that_are_left(data):
    pool = clustered(2600, seed=1).round(data.draw(st.sampled_from([0, 1, 8])))
    live = live_of(pool[:ROWS])
    answers(live)
    others = list(range(ROWS, 2600))
    for _ in range(data.draw(st.integers(1, 6))):
        inside, outside = split(live)
        count = data.draw(st.integers(1, 40))
        first = data.draw(st.integers(0, 500))
        match data.draw(st.sampled_from(["outside", "outside", "any", "add"])):
            case "outside":
                remove(live, outside[first : first + count])
            case "any":
                remove(live, inside[first : first + 1] + outside[first : first + 3])
            case "add":
                new, others = others[:count], others[count:]
                add(live, pool[new], new)
        found = SEARCH.nearest(live, pool[:5], K).positions
        assert ((found >= 0) & (found < len(live))).all()
    kept = sorted(info.id for info in live.table.infos)
    fresh = live_of(pool[kept], kept)
    assert codebooks(live) == codebooks(fresh)
    assert content(live) == content(fresh)
    assert answers(live, pool[:20]) == answers(fresh, pool[:20])


# -- through a memory ------------------------------------------------------------------------------


@pytest.fixture
def memory():
    found = Memory(DIM)
    found.add(clustered(ROWS), ["x"] * ROWS, ids=[f"row {i}" for i in range(ROWS)])
    answers(found.live)
    return found


def test_forgetting_through_a_memory_reaches_the_index(memory):
    gone = split(memory.live)[1][:3]
    memory.forget(ids=gone)
    assert is_learned(memory.live)
    assert not set(gone) & content(memory.live).keys()


def test_a_forgotten_row_is_never_found_again(memory):
    queries = memory.table.embeddings[:50].astype(np.float64)
    gone = [f"row {i}" for i in range(50)]
    memory.forget(ids=gone)
    found, _ = answers(memory.live, queries)
    assert not set(gone) & set().union(*found)


def test_a_copy_learns_its_own_index(memory):
    twin = copy.deepcopy(memory)
    assert twin.live._followers == {}
    gone = split(memory.live)[1][:100]
    twin.forget(ids=gone)
    assert answers(memory.live) != answers(twin.live)
    assert content(memory.live).keys() - content(twin.live).keys() == set(gone)


def test_an_interrupted_forget_leaves_an_index_that_is_built_anew(memory, monkeypatch):
    gone = split(memory.live)[1][0]
    with interrupted(monkeypatch, "_close"):
        memory.forget(ids=[gone])
    assert content(memory.live).keys() == {row.id for row in memory}


def test_an_interrupted_search_learns_the_next_time(memory, monkeypatch):
    memory.forget(ids=split(memory.live)[0][:1])
    with interrupted(monkeypatch, "add"):
        answers(memory.live)
    assert not is_learned(memory.live)
    assert content(memory.live).keys() == {row.id for row in memory}


@contextlib.contextmanager
def interrupted(monkeypatch, method):
    """Press Ctrl-C as soon as an index is told to do something."""

    def press(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CodeIndex, method, press)
        with pytest.raises(KeyboardInterrupt):
            yield


# -- the sample ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "lists"),
    [(0, 2), (1024, 64), (4095, 64), (4096, 128), (1_000_000, 1024), (2**20, 2048), (2**22, 4096)],
)
def test_lists_are_about_twice_the_root_of_the_rows(rows, lists):
    assert lists_for(rows) == lists


def test_the_sample_has_the_smallest_hashes_in_their_order():
    infos = live_of(np.zeros((3000, 1)), [f"{i}" for i in range(3000)]).table.infos
    sample = draw_sample(infos)
    found = [infos[place].id for place in sample.positions]
    assert found == sorted((info.id for info in infos), key=hash_id)[:1024]
    assert sample.threshold == hash_id(found[-1])


def test_rows_whose_hashes_collide_are_in_the_sample_by_id(monkeypatch):
    monkeypatch.setattr("erasable.memory._codebooks.hash_id", lambda row_id: row_id % 1000)
    infos = live_of(np.zeros((3000, 1)), range(2999, -1, -1)).table.infos
    found = [infos[place].id for place in draw_sample(infos).positions]
    expected = sorted(range(3000), key=lambda row_id: (row_id % 1000, encode_key(row_id)))
    assert found == [row_id for row_id in expected if row_id % 1000 <= 341]


@settings(max_examples=10)
@given(st.integers(0, 2**32), st.integers(1, 3))
def test_the_sample_still_fits_exactly_if_it_would_be_drawn_again(seed, count):
    ids = np.random.default_rng(seed).permutation(10**6)[:2100].tolist()
    every = {info.id: info for info in live_of(np.zeros((2100, 1)), ids).table.infos}
    before, changed = [every[i] for i in ids[count:]], [every[i] for i in ids[:count]]
    first, second = draw_sample(before), draw_sample([*changed, *before])
    is_same = [before[place].id for place in first.positions] == [
        [*changed, *before][place].id for place in second.positions
    ]
    assert first.still_fits(2100, changed) == is_same
    assert second.still_fits(2100 - count, changed) == is_same


# -- centroids -------------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from([1, 2, 9, 2**20 - 9]))
def test_a_row_belongs_to_the_nearest_centroid_and_of_equal_ones_to_the_first(seed, dim, reach):
    rng = np.random.default_rng(seed)
    rows, middles = (reach - rng.integers(0, 5, (size, dim)) for size in (50, 7))
    centroids = Centroids(Grid().values(middles), Grid())
    squares = ((rows[:, None] - middles) ** 2).sum(axis=2)
    assert centroids.nearest(Grid().values(rows)).tolist() == squares.argmin(axis=1).tolist()
    assert centroids.squares(Grid().values(rows)).tolist() == squares.tolist()


def test_a_row_belongs_to_its_list_whatever_comes_with_it():
    # FAISS compares 128,000 numbers or more by a matrix product, which here loses what matters.
    units = np.random.default_rng(0).integers(1_000_000, 1_000_100, (8192, 16))
    rows = Grid().values(units)
    centroids = Centroids(rows[:100], Grid())
    one_by_one = [int(centroids.nearest(rows[[i]])[0]) for i in range(0, 8192, 50)]
    assert centroids.nearest(rows)[::50].tolist() == one_by_one


def test_codebooks_are_the_same_on_one_thread_and_two():
    before = faiss.omp_get_max_threads()
    try:
        found = []
        for threads in (1, 2):
            faiss.omp_set_num_threads(threads)
            found.append(codebooks(live_of(clustered(2000, dim=16))))
    finally:
        faiss.omp_set_num_threads(before)
    assert found[0] == found[1]
