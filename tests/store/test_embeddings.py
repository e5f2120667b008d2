"""Embeddings kept on disk: computed once, checked when read, and gone when removed."""

import errno
import gc
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.errors import StateError, StoreError
from erasable.store import EmbeddingCache
from erasable.store._embeddings import SEGMENT

KEY = {"encoder": "toy", "weights": "0123"}
OTHER_KEY = {"encoder": "toy", "weights": "4567"}
DIM = 4
SPOT_CHECKS = 4


def names(count, start=0):
    return [f"s:row-number-{index}".encode() for index in range(start, start + count)]


def contents(count, *, start=0, version=0):
    found = (f"{version}:{index}".encode() for index in range(start, start + count))
    return [hashlib.sha256(content).digest() for content in found]


def vectors(count, *, seed=0, dtype=np.float32):
    """Return embeddings (count, DIM) whose bytes are not found by accident."""
    return np.random.default_rng(seed).normal(size=(count, DIM)).astype(dtype)


class Encoder:
    """Look embeddings up, and note which were asked for."""

    def __init__(self, embeddings):
        self.embeddings = embeddings
        self.asked = []

    def __call__(self, places):
        self.asked += places.tolist()
        return self.embeddings[places]


def refuse(places):
    raise AssertionError(f"asked for {places}")


def fill(folder, count, *, key=KEY, seed=0):
    """Return a cache with rows in it, and their embeddings."""
    cache, embeddings = EmbeddingCache(folder), vectors(count, seed=seed)
    cache.encode(key, names(count), contents(count), Encoder(embeddings))
    return cache, embeddings


def segments(folder):
    return sorted(folder.glob("*/*.rows"))


def traces(folder, index, embeddings):
    """Return the files that still hold a row's id, its digest, its content or its embedding."""
    row_id = names(1, index)[0]
    marks = [
        row_id,
        hashlib.sha256(b"erasable.row-id.1:" + row_id).digest(),
        contents(1, start=index)[0],
        embeddings[index].tobytes(),
    ]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if any(mark in path.read_bytes() for mark in marks)]


# -- computing once -------------------------------------------------------------------------------


def test_embeddings_are_those_that_were_computed(tmp_path):
    embeddings = vectors(5)
    encoder = Encoder(embeddings)
    found = EmbeddingCache(tmp_path).encode(KEY, names(5), contents(5), encoder)
    np.testing.assert_array_equal(found, embeddings)
    assert encoder.asked == [0, 1, 2, 3, 4]


def test_the_folder_is_created_when_the_first_are_written(tmp_path):
    cache = EmbeddingCache(tmp_path / "deep" / "cache")
    assert (cache.count(), cache.remove(names(1))) == (0, 0)
    assert not (tmp_path / "deep").exists()
    fill(tmp_path / "deep" / "cache", 2)
    assert cache.count() == 2


def test_rows_that_are_there_are_only_spot_checked(tmp_path):
    _, embeddings = fill(tmp_path, 50)
    encoder = Encoder(embeddings)
    found = EmbeddingCache(tmp_path).encode(KEY, names(50), contents(50), encoder)
    np.testing.assert_array_equal(found, embeddings)
    assert len(encoder.asked) <= SPOT_CHECKS


def test_only_new_rows_are_computed(tmp_path):
    fill(tmp_path, 50)
    embeddings = vectors(50)
    more = np.concatenate([embeddings, vectors(7, seed=1)])
    encoder = Encoder(more)
    cache = EmbeddingCache(tmp_path)
    found = cache.encode(KEY, names(57), contents(57), encoder)
    np.testing.assert_array_equal(found, more)
    assert encoder.asked[SPOT_CHECKS:] == list(range(50, 57))
    assert cache.count() == 57


def test_rows_may_come_in_another_order_and_selection(tmp_path):
    _, embeddings = fill(tmp_path, 40)
    order = np.random.default_rng(0).permutation(40)[:25]
    ids, digests = names(40), contents(40)
    encoder = Encoder(embeddings[order])
    found = EmbeddingCache(tmp_path).encode(
        KEY, [ids[i] for i in order], [digests[i] for i in order], encoder
    )
    np.testing.assert_array_equal(found, embeddings[order])
    assert len(encoder.asked) <= SPOT_CHECKS


def test_a_row_whose_content_changed_is_computed_anew(tmp_path):
    _, before = fill(tmp_path, 10)
    after, digests = before.copy(), contents(10)
    after[3], digests[3] = 9, contents(1, version=1)[0]
    encoder = Encoder(after)
    found = EmbeddingCache(tmp_path).encode(KEY, names(10), digests, encoder)
    np.testing.assert_array_equal(found, after)
    assert encoder.asked[SPOT_CHECKS:] == [3]


def test_content_under_another_id_is_computed_for_that_id(tmp_path):
    cache, embeddings = fill(tmp_path, 3)
    encoder = Encoder(embeddings)
    cache.encode(KEY, names(3, 100), contents(3), encoder)
    assert encoder.asked == [0, 1, 2]
    assert (cache.count(), cache.count(names(3, 100))) == (6, 3)


def test_another_encoder_has_rows_of_its_own(tmp_path):
    cache, _ = fill(tmp_path, 5)
    others = vectors(5, seed=1)
    found = cache.encode(OTHER_KEY, names(5), contents(5), Encoder(others))
    np.testing.assert_array_equal(found, others)
    assert cache.count() == 10


def test_what_identifies_an_encoder_does_not_depend_on_order(tmp_path):
    cache, embeddings = fill(tmp_path, 8)
    encoder = Encoder(embeddings)
    cache.encode(dict(reversed(KEY.items())), names(8), contents(8), encoder)
    assert len(encoder.asked) <= SPOT_CHECKS


def test_the_folder_says_which_encoder_it_is_of(tmp_path):
    fill(tmp_path, 1)
    (description,) = tmp_path.glob("*/encoder.json")
    assert '"weights": "0123"' in description.read_text()


def test_no_rows_are_no_embeddings(tmp_path):
    cache = EmbeddingCache(tmp_path)
    assert len(cache.encode(KEY, [], [], refuse)) == 0
    assert cache.count() == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_keep_their_precision(tmp_path, dtype):
    cache, embeddings = EmbeddingCache(tmp_path), vectors(6, dtype=dtype)
    for _ in range(2):
        found = cache.encode(KEY, names(6), contents(6), Encoder(embeddings))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, embeddings)


@pytest.mark.parametrize(
    "embeddings", [np.zeros((3, 2), np.float16), np.zeros((3, 2), int), np.zeros(3, np.float32)]
)
def test_what_is_no_embedding_is_refused(tmp_path, embeddings):
    with pytest.raises((StoreError, IndexError)):
        EmbeddingCache(tmp_path).encode(KEY, names(3), contents(3), Encoder(embeddings))
    assert segments(tmp_path) == []


def test_an_id_that_comes_twice_is_answered_twice(tmp_path):
    cache, embeddings = EmbeddingCache(tmp_path), vectors(3)[[0, 1, 0]]
    ids, digests = [names(2)[i] for i in (0, 1, 0)], [contents(2)[i] for i in (0, 1, 0)]
    for _ in range(2):
        found = cache.encode(KEY, ids, digests, Encoder(embeddings))
        np.testing.assert_array_equal(found, embeddings)
    cache.remove(names(1))
    assert traces(tmp_path, 0, embeddings) == []


def test_an_id_with_two_contents_keeps_both(tmp_path):
    cache, embeddings = EmbeddingCache(tmp_path), vectors(2)
    ids = names(1) * 2
    for _ in range(2):
        found = cache.encode(KEY, ids, contents(2), Encoder(embeddings))
        np.testing.assert_array_equal(found, embeddings)
    assert cache.count(names(1)) == 2
    assert cache.remove(names(1)) == 2


def test_progress_begins_with_what_is_there_and_ends_with_all(tmp_path):
    fill(tmp_path, 10)
    told = []
    more = np.concatenate([vectors(10), vectors(SEGMENT + 5, seed=1)])
    EmbeddingCache(tmp_path).encode(
        KEY,
        names(len(more)),
        contents(len(more)),
        Encoder(more),
        on_progress=lambda done, total: told.append((done, total)),
    )
    total = SEGMENT + 15
    assert told == [(10, total), (SEGMENT + 10, total), (total, total)]


@st.composite
def histories(draw):
    """Draw calls: rows (id, content version) to encode, or ids to remove."""
    row = st.tuples(st.integers(0, 5), st.integers(0, 2))
    encode = st.lists(row, max_size=6)
    return draw(st.lists(encode | st.sets(st.integers(0, 5)), max_size=8))


@given(histories())
def test_a_cache_is_a_mapping_that_computes_what_it_lacks(history):
    held, values = set(), {}
    with tempfile.TemporaryDirectory() as folder:
        for call in history:
            cache = EmbeddingCache(Path(folder))
            if isinstance(call, set):
                cache.remove([names(1, row_id)[0] for row_id in call])
                held = {row for row in held if row[0] not in call}
            else:
                expected = [values.setdefault(row, vectors(1, seed=len(values))[0]) for row in call]
                encoder = Encoder(np.array(expected).reshape(-1, DIM))
                found = cache.encode(
                    KEY,
                    [names(1, row_id)[0] for row_id, _ in call],
                    [contents(1, start=row_id, version=v)[0] for row_id, v in call],
                    encoder,
                )
                np.testing.assert_array_equal(found, encoder.embeddings[:, : found.shape[1]])
                new = [place for place, row in enumerate(call) if row not in held]
                assert encoder.asked[len(encoder.asked) - len(new) :] == new
                held |= set(call)
            assert {i for i in range(6) if cache.count(names(1, i))} == {row[0] for row in held}


# -- an encoder that has changed ------------------------------------------------------------------


def test_an_encoder_that_returns_something_else_is_told_with_the_folder(tmp_path):
    cache, embeddings = fill(tmp_path, 5)
    (folder,) = (path.parent for path in segments(tmp_path))
    with pytest.raises(StateError) as caught:
        cache.encode(KEY, names(5), contents(5), Encoder(embeddings + 1))
    assert str(caught.value) == (
        f"Expected the embeddings in {folder} to be those of this encoder, but it encodes the same "
        "rows differently now. If its code was changed, delete that folder."
    )


def test_an_encoder_that_returns_another_size_is_told(tmp_path):
    cache, embeddings = fill(tmp_path, 5)
    with pytest.raises(StateError, match="differently now"):
        cache.encode(KEY, names(5), contents(5), Encoder(embeddings[:, :2]))


def test_rounding_of_another_machine_is_no_change(tmp_path):
    cache, embeddings = fill(tmp_path, 5)
    found = cache.encode(KEY, names(5), contents(5), Encoder(embeddings * np.float32(1 + 1e-5)))
    np.testing.assert_array_equal(found, embeddings)


def test_a_changed_encoder_leaves_the_cache_as_it_was(tmp_path):
    cache, embeddings = fill(tmp_path, 5)
    with pytest.raises(StateError):
        cache.encode(KEY, names(7), contents(7), Encoder(vectors(7, seed=3)))
    found = cache.encode(KEY, names(5), contents(5), Encoder(embeddings))
    np.testing.assert_array_equal(found, embeddings)
    assert cache.count() == 5


# -- interruptions --------------------------------------------------------------------------------


class Interrupted(Encoder):
    """An encoder that is interrupted when asked for the third segment."""

    def __call__(self, places):
        if 2 * SEGMENT in places:
            raise KeyboardInterrupt
        return super().__call__(places)


def test_an_interrupted_call_goes_on_where_it_stopped(tmp_path):
    count = 2 * SEGMENT + 100
    embeddings = vectors(count)
    with pytest.raises(KeyboardInterrupt):
        EmbeddingCache(tmp_path).encode(KEY, names(count), contents(count), Interrupted(embeddings))
    assert EmbeddingCache(tmp_path).count() == 2 * SEGMENT
    encoder = Encoder(embeddings)
    found = EmbeddingCache(tmp_path).encode(KEY, names(count), contents(count), encoder)
    np.testing.assert_array_equal(found, embeddings)
    assert encoder.asked[SPOT_CHECKS:] == list(range(2 * SEGMENT, count))


def python(script, *arguments):
    """Start a process that has the helpers of this file."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    prelude = "import os, signal, sys\nfrom pathlib import Path\nsys.path.insert(0, sys.argv[1])\n"
    prelude += "from test_embeddings import *\nfolder = Path(sys.argv[2])\n"
    return subprocess.Popen(
        [sys.executable, "-c", prelude + script, str(Path(__file__).parent), *map(str, arguments)],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )


KILLED_IN_THE_SECOND_SEGMENT = """
class Killed(Encoder):
    def __call__(self, places):
        if SEGMENT in places:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(places)

count = SEGMENT + 10
EmbeddingCache(folder).encode(KEY, names(count), contents(count), Killed(vectors(count)))
"""

KILLED_BEFORE_THE_RENAME = """
def replace(self, target):
    if target.suffix == ".rows":
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(self, target)

rename, Path.replace = Path.replace, replace
fill(folder, 3)
"""


def kill(script, folder):
    process = python(script, folder)
    _, told = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, told


def test_a_killed_process_leaves_finished_segments(tmp_path):
    kill(KILLED_IN_THE_SECOND_SEGMENT, tmp_path)
    count = SEGMENT + 10
    encoder = Encoder(vectors(count))
    cache = EmbeddingCache(tmp_path)
    assert cache.count() == SEGMENT
    found = cache.encode(KEY, names(count), contents(count), encoder)
    np.testing.assert_array_equal(found, encoder.embeddings)
    assert encoder.asked[SPOT_CHECKS:] == list(range(SEGMENT, count))


@pytest.fixture(scope="module")
def killed_while_writing(tmp_path_factory):
    """Return a cache whose process was killed before its first segment had its name."""
    folder = tmp_path_factory.mktemp("killed")
    kill(KILLED_BEFORE_THE_RENAME, folder)
    assert traces(folder, 0, vectors(3))
    return folder


def test_a_segment_that_was_not_finished_does_not_count(killed_while_writing):
    assert EmbeddingCache(killed_while_writing).count() == 0


def test_removed_rows_are_not_left_in_what_a_killed_write_left(killed_while_writing):
    EmbeddingCache(killed_while_writing).remove(names(3))
    assert traces(killed_while_writing, 0, vectors(3)) == []


WRITER = """
number = int(sys.argv[3])
embeddings = vectors(400)
for start in range(0, 400, 50):
    rows = slice(start, start + 100)
    found = EmbeddingCache(folder).encode(
        KEY, names(400)[rows], contents(400)[rows], Encoder(embeddings[rows])
    )
    assert (found == embeddings[rows]).all()
    EmbeddingCache(folder).encode(
        KEY, names(5, 1000 * number), contents(5, start=1000 * number), Encoder(vectors(5))
    )
    EmbeddingCache(folder).remove(names(3, 1000 * number))
"""


def test_processes_can_write_at_once(tmp_path):
    processes = [python(WRITER, tmp_path, number) for number in (1, 2)]
    told = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], told
    encoder = Encoder(vectors(400))
    found = EmbeddingCache(tmp_path).encode(KEY, names(400), contents(400), encoder)
    np.testing.assert_array_equal(found, encoder.embeddings)
    assert len(encoder.asked) <= SPOT_CHECKS
    assert EmbeddingCache(tmp_path).count([*names(3, 1000), *names(3, 2000)]) == 0
    assert EmbeddingCache(tmp_path).count([*names(2, 1003), *names(2, 2003)]) == 4


# -- removing -------------------------------------------------------------------------------------


def test_removed_rows_leave_no_trace_in_any_file(tmp_path):
    cache, embeddings = fill(tmp_path, 20)
    _, others = fill(tmp_path, 20, key=OTHER_KEY, seed=1)
    assert traces(tmp_path, 3, embeddings)
    assert traces(tmp_path, 3, others)
    assert cache.remove([names(1, 3)[0], names(1, 7)[0]]) == 4
    for index in (3, 7):
        assert traces(tmp_path, index, embeddings) == []
        assert traces(tmp_path, index, others) == []


def test_other_rows_stay_when_some_are_removed(tmp_path):
    cache, embeddings = fill(tmp_path, 20)
    cache.remove(names(5))
    encoder = Encoder(embeddings)
    assert (cache.count(), cache.count(names(5))) == (15, 0)
    found = cache.encode(KEY, names(20), contents(20), encoder)
    np.testing.assert_array_equal(found, embeddings)
    assert encoder.asked[SPOT_CHECKS:] == [0, 1, 2, 3, 4]


def test_every_content_of_a_removed_id_goes(tmp_path):
    cache, embeddings = fill(tmp_path, 3)
    cache.encode(KEY, names(3), contents(3, version=1), Encoder(vectors(3, seed=1)))
    assert cache.remove(names(1)) == 2
    assert traces(tmp_path, 0, embeddings) == traces(tmp_path, 0, vectors(3, seed=1)) == []


def test_removing_twice_removes_once(tmp_path):
    cache, _ = fill(tmp_path, 5)
    assert [cache.remove(names(2)), cache.remove(names(2))] == [2, 0]


@pytest.mark.parametrize("ids", [[], names(2, 100)])
def test_removing_what_is_not_there_changes_nothing(tmp_path, ids):
    cache, _ = fill(tmp_path, 5)
    before = [path.read_bytes() for path in segments(tmp_path)]
    assert cache.remove(ids) == 0
    assert [path.read_bytes() for path in segments(tmp_path)] == before


def test_a_segment_without_rows_is_deleted(tmp_path):
    cache, _ = fill(tmp_path, 5)
    assert cache.remove(names(5)) == 5
    assert segments(tmp_path) == []


def test_a_removed_row_can_be_encoded_again(tmp_path):
    cache, embeddings = fill(tmp_path, 3)
    cache.remove(names(1))
    found = cache.encode(KEY, names(3), contents(3), Encoder(embeddings))
    np.testing.assert_array_equal(found, embeddings)
    assert cache.count() == 3


def test_rows_of_many_segments_are_removed(tmp_path):
    count = SEGMENT + 50
    cache, embeddings = fill(tmp_path, count)
    wanted = [0, SEGMENT - 1, SEGMENT, count - 1]
    assert cache.remove([names(1, index)[0] for index in wanted]) == 4
    assert [traces(tmp_path, index, embeddings) for index in wanted] == [[]] * 4


def test_a_sweep_removes_by_content_under_any_id_and_encoder(tmp_path):
    cache, embeddings = fill(tmp_path, 6)
    cache.encode(OTHER_KEY, names(6, 100), contents(6), Encoder(vectors(6, seed=1)))
    forgotten = set(contents(2))
    assert cache.sweep(lambda content: content in forgotten) == 4
    assert [traces(tmp_path, index, embeddings) for index in range(2)] == [[], []]
    assert cache.count() == 8


def test_a_sweep_that_finds_nothing_changes_nothing(tmp_path):
    cache, _ = fill(tmp_path, 6)
    before = [path.read_bytes() for path in segments(tmp_path)]
    assert cache.sweep(lambda _: False) == 0
    assert [path.read_bytes() for path in segments(tmp_path)] == before


def test_removed_entries_are_not_offered_to_a_sweep_as_rows(tmp_path):
    cache, _ = fill(tmp_path, 6)
    cache.remove(names(2))
    assert cache.sweep(lambda _: True) == 4


# -- damage ---------------------------------------------------------------------------------------


def require_recovered(folder, embeddings):
    """Require that a cache with some damage returns what it should, and stays sound."""
    count = len(embeddings)
    for _ in range(2):
        encoder = Encoder(embeddings)
        found = EmbeddingCache(folder).encode(KEY, names(count), contents(count), encoder)
        np.testing.assert_array_equal(found, embeddings)
    assert len(encoder.asked) <= SPOT_CHECKS


def body_of(path):
    """Return where the header of a segment ends."""
    return path.read_bytes().index(b"\n") + 1


DAMAGE = {
    "empty": lambda data: b"",
    "cut off in the header": lambda data: data[:50],
    "cut off in the rows": lambda data: data[:-7],
    "garbage": lambda data: b"garbage" * 100,
    "zeros": lambda data: bytes(len(data)),
    "another format": lambda data: data.replace(b"erasable.embeddings.1", b"erasable.embeddings.9"),
    "a flipped byte of the last embedding": lambda data: data[:-1] + bytes([data[-1] ^ 4]),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_segment_is_deleted_and_computed_anew(tmp_path, damage, caplog):
    _, embeddings = fill(tmp_path, 6)
    (path,) = segments(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    require_recovered(tmp_path, embeddings)
    assert not path.exists()
    assert f"{path} is damaged" in caplog.text


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_removing_works_beside_a_damaged_segment(tmp_path, damage):
    cache, _ = fill(tmp_path, 6)
    (path,) = segments(tmp_path)
    cache.encode(KEY, names(2, 50), contents(2, start=50), Encoder(vectors(52)[50:]))
    path.write_bytes(damage(path.read_bytes()))
    cache.remove(names(1, 50))
    assert cache.count(names(2, 50)) == 1


def test_a_damaged_segment_does_not_cost_the_others(tmp_path):
    count = SEGMENT + 3
    _, embeddings = fill(tmp_path, count)
    small = min(segments(tmp_path), key=lambda path: path.stat().st_size)
    small.write_bytes(b"garbage")
    encoder = Encoder(embeddings)
    found = EmbeddingCache(tmp_path).encode(KEY, names(count), contents(count), encoder)
    np.testing.assert_array_equal(found, embeddings)
    assert encoder.asked[SPOT_CHECKS:] == [SEGMENT, SEGMENT + 1, SEGMENT + 2]


@given(place=st.integers(0, 3 * (68 + 4 * DIM) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_among_the_rows_never_gives_other_embeddings(place, bit):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _, embeddings = fill(folder, 3)
        (path,) = segments(folder)
        data = bytearray(path.read_bytes())
        data[body_of(path) + place] ^= 1 << bit
        path.write_bytes(data)
        require_recovered(folder, embeddings)


def test_a_flipped_bit_in_the_header_is_damage_like_any_other(tmp_path):
    _, embeddings = fill(tmp_path, 3)
    (path,) = segments(tmp_path)
    sound = path.read_bytes()
    escaped = {}
    for place in range(body_of(path)):
        for other in segments(tmp_path):
            other.unlink()
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        try:
            EmbeddingCache(tmp_path).remove(names(1, 100))
            require_recovered(tmp_path, embeddings)
        except Exception as error:
            escaped[place] = f"{type(error).__name__}: {error}"
    assert escaped == {}


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # numpy leaves such a file open
def test_garbage_that_looks_like_a_zip_file_is_damage_like_any_other(tmp_path):
    _, embeddings = fill(tmp_path, 3)
    segments(tmp_path)[0].write_bytes(b"PK\x03\x04" + b"garbage" * 20)
    escaped = ""
    try:
        require_recovered(tmp_path, embeddings)
    except Exception as error:
        escaped = repr(error)
    gc.collect()  # here, where the warning is expected
    assert escaped == ""


@pytest.mark.parametrize("number", [b">f4", b"<u4"])
def test_a_header_of_other_numbers_never_gives_other_embeddings(tmp_path, number):
    _, embeddings = fill(tmp_path, SEGMENT + 3)
    small = min(segments(tmp_path), key=lambda path: path.stat().st_size)
    small.write_bytes(small.read_bytes().replace(b"<f4", number))
    small.rename(small.with_name("f" * 16 + ".rows"))  # read last, so not spot checked
    require_recovered(tmp_path, embeddings)


def with_damaged_row(folder, *, place):
    """Return a cache of three rows after a byte of the first one changed and all were asked for."""
    cache, embeddings = fill(folder, 3)
    (path,) = segments(folder)
    data = bytearray(path.read_bytes())
    data[body_of(path) + place] ^= 1
    path.write_bytes(data)
    require_recovered(folder, embeddings)
    return cache, embeddings


def files_with(folder, embedding):
    held = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in held if embedding.tobytes() in path.read_bytes()]


def test_a_row_whose_content_digest_is_damaged_is_removed_all_the_same(tmp_path):
    cache, embeddings = with_damaged_row(tmp_path, place=40)
    cache.remove(names(1))
    assert files_with(tmp_path, embeddings[0]) == []


def test_a_row_whose_id_digest_is_damaged_is_removed_all_the_same(tmp_path):
    cache, embeddings = with_damaged_row(tmp_path, place=0)
    cache.remove(names(1))
    assert files_with(tmp_path, embeddings[0]) == []


def test_rows_that_a_damaged_header_hides_are_removed_all_the_same(tmp_path):
    cache, embeddings = fill(tmp_path, 6)
    (path,) = segments(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"(6,)", b"(4,)"))
    require_recovered(tmp_path, embeddings)
    cache.remove(names(1, 5))
    assert traces(tmp_path, 5, embeddings) == []


def test_a_segment_that_cannot_be_opened_just_now_is_not_deleted(tmp_path, monkeypatch):
    cache, _ = fill(tmp_path, 3)

    def too_many(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(np, "memmap", too_many)
    with pytest.raises(OSError, match="Too many open files"):
        cache.count()
    monkeypatch.undo()
    assert cache.count() == 3


def test_a_segment_that_another_process_removes_meanwhile_does_not_count(tmp_path, monkeypatch):
    cache, _ = fill(tmp_path, 3)
    listed = os.listdir

    def late(folder):
        found = listed(folder)
        for path in segments(tmp_path):
            path.unlink()
        return found

    monkeypatch.setattr(os, "listdir", late)
    assert cache.count() == 0


# -- files of others ------------------------------------------------------------------------------


FOREIGN = ["notes.txt", "array.npy", "folder/array.npy", "0123abcd/array.npy", f"{'A' * 32}/x.npy"]


@pytest.mark.parametrize("name", FOREIGN)
def test_files_of_others_are_left_alone(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"mine")
    cache, _ = fill(tmp_path, 3)
    assert (cache.count(), cache.remove(names(3)), cache.sweep(lambda _: True)) == (3, 3, 0)
    assert path.read_bytes() == b"mine"


def test_arrays_in_a_folder_that_is_no_encoders_are_left_alone(tmp_path):
    path = tmp_path / hashlib.md5(b"mine", usedforsecurity=False).hexdigest() / "array.npy"
    path.parent.mkdir()
    np.save(path, np.zeros(3))
    cache, _ = fill(tmp_path, 3)
    cache.remove(names(3))
    assert path.exists()


def test_a_file_named_like_an_encoders_folder_is_left_alone(tmp_path):
    (tmp_path / ("0" * 32)).write_text("mine")
    cache, _ = fill(tmp_path, 3)
    assert (cache.count(), cache.remove(names(3))) == (3, 3)


def test_a_cache_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError, match="Expected a folder to write to"):
        fill(tmp_path / "file", 1)
    assert EmbeddingCache(tmp_path / "file").remove(names(1)) == 0
