"""The page of predictions and the rows behind them."""

import base64
import builtins
import io
import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.image import imread

from erasable import KNNClassifier, SPMClassifier
from erasable.bench._thumbnails import thumbnails
from erasable.bench._votes_page import votes_page
from erasable.errors import ArgumentError, MissingExtraError, StateError
from models.toys import blobs, names, remembering

HOSTILE = "<script>alert('x')</script>\" onload=\"alert(1)"


class Page(HTMLParser):
    """Collects tags, attributes and text, and objects to tags that are left open."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "img", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def says(self, words):
        return words in " ".join(" ".join(self.text).split())


def images(count=12, seed=0, shape=(4, 4)):
    """Return images of bytes, half of them dark, and their labels."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 100, (count, *shape), np.uint8)
    X[1::2] += 150
    return X, ["dark", "light"] * (count // 2)


def of_images(**options):
    X, y = images()
    settings = {"encoder": "random_features", "random_state": 0, **options}
    return SPMClassifier(**settings).remember(X, y, ids=names(12))


def decoded(tag):
    """Return the pixels (height, width, channels) of an image that is in the page itself."""
    data = re.fullmatch(r'<img src="data:image/png;base64,([^"]+)" alt="">', tag)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pixels = np.rint(255 * imread(io.BytesIO(base64.b64decode(data)), format="png"))
    return pixels[..., None] if pixels.ndim == 2 else pixels


@pytest.fixture(scope="module")
def page():
    X, y = images(2, seed=5)
    rows, _ = images()
    return votes_page(of_images(), X, y=y, ids=["q-0", "q-1"], rows=(names(12), rows), name="m")


def test_the_page_needs_nothing_from_elsewhere(page):
    assert not re.search(r"https?:|//[a-z]|@import|<link|<script|<iframe|url\(", page)
    sources = [value for name, value in Page(page).attributes if name in ("src", "href", "xlink")]
    assert sources
    assert all(source.startswith("data:image/png;base64,") for source in sources)


def test_the_page_forbids_itself_to_load_anything(page):
    policy = dict(Page(page).attributes)["content"]
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def test_the_page_is_well_formed_and_says_what_it_is_of(page):
    model, found = of_images(), Page(page)
    assert found.tags.count("article") == 2
    assert found.says(f"12 rows of 2 classes, digest {model.memory.digest}")
    assert found.says("prototypes: each class is read as the mean of its rows")
    assert found.says("m (SPMClassifier)")
    assert found.says("of 12 of the 12 rows on this page, found by id")


def test_the_page_shows_the_predictions_of_the_library(page):
    X, _ = images(2, seed=5)
    model = of_images()
    best = model.predict_proba(X).max(axis=1)
    shown = re.findall(
        r"<small>predicted</small> <bdi>(.*?)</bdi></p>\n.*?probability (.*?)<", page
    )
    assert [label for label, _ in shown] == model.predict(X).tolist()
    assert [text for _, text in shown] == [f"{100 * p:.1f} %" for p in best]


@pytest.mark.parametrize("reduction", ["prototypes", "rows", "neighbours", "gaussian"])
def test_the_page_shows_the_votes_of_the_library(reduction):
    X, _ = images(3, seed=5)
    model = of_images(reduction=reduction, k=5)
    found = model.votes(X, top=3)
    text = votes_page(model, X, top=3)
    assert re.findall(r'<div class="id"><bdi>(.*?)</bdi>', text) == found.ids.ravel().tolist()
    votes = [part.replace("−", "-") for part in re.findall(r'<div class="vote">(.*?)</div>', text)]
    numbers = [float(part.removesuffix(" %").replace(",", "")) for part in votes]
    scale = 100 if found.kind == "probability" else 1
    np.testing.assert_allclose(numbers, scale * found.weights.ravel(), rtol=0.01)
    assert all(part.endswith(" %") == (found.kind == "probability") for part in votes)
    assert Page(text).says("in per cent" if found.kind == "probability" else "has no unit")


def test_neighbours_have_equal_votes():
    X, y = images()
    model = KNNClassifier("random_features", k=4).remember(X, y, ids=names(12))
    text = votes_page(model, X[:1], top=8)
    assert re.findall(r'<div class="vote">(.*?)</div>', text) == ["25.0 %"] * 4
    assert Page(text).says("the 4 nearest rows have one equal vote each")
    assert Page(text).says("8 other rows together: 0.00 %")


def test_rows_of_the_predicted_class_are_marked(page):
    X, _ = images(2, seed=5)
    found = of_images().votes(X, top=8)
    expected = found.labels == of_images().predict(X)[:, None]
    marks = re.findall(r'<div class="label">(.) <bdi>(.*?)</bdi>', page)
    assert [mark == "=" for mark, _ in marks] == expected.ravel().tolist()
    assert page.count('<div class="row other">') == (~expected).sum()


def test_negative_votes_are_striped():
    model = remembering(4)
    text = votes_page(model, blobs(2, seed=3)[0], top=4)
    count = (model.votes(blobs(2, seed=3)[0], top=4).weights < 0).sum()
    assert text.count('class="negative" style="width') == count > 0
    assert "−" in text


def test_the_heaviest_vote_has_the_longest_bar():
    text = votes_page(remembering(6, reduction="rows"), blobs(1, seed=3)[0], top=3)
    widths = [float(width) for width in re.findall(r"width: ([\d.]+)%", text)]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] == 100


def test_thumbnails_decode_to_the_pixels_of_their_rows(page):
    X, _ = images()
    shown = {
        row_id: tag
        for tag, row_id in re.findall(
            r'(<img [^>]*>)</div>\n<div class="bar">.*?<div class="id"><bdi>(.*?)</bdi>',
            page,
            re.DOTALL,
        )
    }
    assert len(shown) >= 8
    for row_id, tag in shown.items():
        np.testing.assert_array_equal(decoded(tag)[..., 0], X[names(12).index(row_id)])


def test_the_queries_have_their_own_pictures(page):
    X, _ = images(2, seed=5)
    tags = re.findall(r'<div class="query">\n<div class="picture">(<img [^>]*>)', page)
    for tag, image in zip(tags, X, strict=True):
        np.testing.assert_array_equal(decoded(tag)[..., 0], image)


def test_a_row_without_a_picture_shows_its_id_and_label_only():
    X, _ = images()
    model = of_images()
    text = votes_page(model, X[:1], rows={names(12)[0]: X[0]}, top=12)
    assert text.count("<img ") == 2
    assert all(f"<bdi>{name}</bdi>" in text for name in names(12))
    assert Page(text).says("of 1 of the 12 rows on this page")


def test_rows_of_pictures_that_are_not_in_the_memory_are_no_matter():
    X, _ = images()
    text = votes_page(of_images(), X[:1], rows={"stranger": X[0], 7: X[1]})
    assert text.count("<img ") == 1


def test_ids_and_their_text_are_told_apart():
    X, y = images(2)
    model = SPMClassifier("random_features").remember(X, y, ids=[7, "7"])
    text = votes_page(model, X[:1], rows={"7": X[1]}, top=2)
    assert text.count("<img ") == 2


def test_a_picture_of_another_input_is_marked():
    X, _ = images()
    given = X.copy()
    given[3] = 255 - given[3]
    text = votes_page(of_images(), X[:1], rows=(names(12), given), top=12)
    assert text.count('<div class="stranger">') == 1
    assert re.search(rf"<bdi>{names(12)[3]}</bdi></div>\n<div class=\"stranger\">", text)


def test_pictures_of_another_shape_are_shown_as_they_are():
    X, y = blobs(4)
    drawings = np.random.default_rng(0).integers(0, 255, (4, 6, 5, 3), np.uint8)
    model = SPMClassifier("identity").remember(X, y, ids=names(4))
    text = votes_page(model, X[:1], rows=(names(4), drawings), top=4)
    tags = re.findall(r"<img [^>]*>", text)
    shown = [decoded(tag).tolist() for tag in tags]
    assert sorted(shown) == sorted(drawings.tolist())
    assert "stranger" not in text.split("</style>")[1]


def test_feature_vectors_are_drawn_as_bars():
    X, _ = blobs(2, seed=3)
    text = votes_page(remembering(6), X, rows=(names(6), blobs(6)[0]), top=2)
    assert text.count("<svg ") == 2 + 2 * 2
    assert Page(text).says("one per feature")


def test_hostile_text_stays_text():
    X, _ = images(2)
    ids = [HOSTILE, "</bdi><img src=x>"]
    model = SPMClassifier("random_features").remember(X, ["<script>", "&amp;"], ids=ids)
    text = votes_page(
        model, X, y=["<script>", "<b>"], ids=[HOSTILE] * 2, title=HOSTILE, name=HOSTILE, rows={}
    )
    page = Page(text)
    assert not {"script", "b"} & set(page.tags)
    assert not {"onload", "onerror"} & {name for name, _ in page.attributes}
    assert page.tags.count("img") == 2
    assert page.says("alert('x')")
    assert page.says("&amp;")


def test_text_that_utf_8_cannot_hold_is_replaced():
    X, _ = images(1)
    assert "bad? name" in votes_page(of_images(), X, ids=["bad\udcff name"])


def test_true_labels_are_compared_with_the_predictions():
    X, _ = images(4)
    text = votes_page(of_images(), X, y=["dark", "light", "dark", "dark"])
    assert (text.count("✓ true label"), text.count("✗ true label")) == (3, 1)
    assert Page(text).says("3 of the 4 shown are predicted correctly")


def test_without_labels_nothing_is_called_right_or_wrong():
    text = votes_page(of_images(), images(2)[0])
    assert "true label" not in text
    assert "correctly" not in text


def test_labels_of_other_types_are_other_labels():
    X, _ = images(4)
    model = SPMClassifier("random_features").remember(X, [1, True, 1, True])
    marks = re.findall(r'class="label">(.) <bdi>(.*?)<', votes_page(model, X[:1], top=4))
    assert len({mark for mark, _ in marks}) == 2


def test_a_row_can_be_left_out_of_its_own_vote():
    X, _ = images()
    model = of_images(reduction="rows")
    own = [names(12)[0], None]
    text = votes_page(model, X[:2], exclude_ids=own, top=12)
    first, second = text.split("<article>")[1:]
    assert "without row <bdi>row-number-0</bdi>" in first
    assert first.count('<div class="row') - first.count('<div class="rows') == 11
    assert "without row" not in second
    assert Page(text).says("1 predicted with a row left out")
    expected = model.predict_proba(X[:2], exclude_ids=own).max(axis=1)
    assert f"probability {100 * expected[0]:.1f} %" in first


def test_of_too_many_queries_the_first_are_shown_and_the_page_says_so():
    X, y = images()
    text = votes_page(of_images(), X, y=y, ids=names(12), limit=5)
    assert text.count("<article>") == 5
    assert Page(text).says("Only the first 5 of 12 queries are shown.")
    assert "Only the first" not in votes_page(of_images(), X, limit=12)


def test_the_page_warns_that_it_keeps_copies(page):
    assert Page(page).says("forgetting a row from the model does not reach it")


def test_a_page_of_the_same_model_is_the_same_text(page):
    X, y = images(2, seed=5)
    rows, _ = images()
    again = votes_page(
        of_images(),
        X,
        y=y,
        ids=["q-0", "q-1"],
        rows=dict(zip(names(12), rows, strict=True)),
        name="m",
    )
    assert again == page


REFUSED = {
    "limit": ({"limit": 0}, "limit"),
    "top": ({"top": 0}, "top"),
    "labels": ({"y": ["dark"]}, "Expected 2 y"),
    "ids": ({"ids": ["a"]}, "Expected 2 ids"),
    "excluded": ({"exclude_ids": [None]}, "Expected 2 exclude_ids"),
    "label of no kind": ({"y": [[1], [2]]}, "label of type"),
    "more pictures": ({"rows": (["a"], np.zeros((2, 4, 4)))}, "Expected 2 ids of pictures"),
    "two pictures": ({"rows": (["a", "a"], np.zeros((2, 4, 4)))}, "more of 'a'"),
    "no id": ({"rows": {1.5: np.zeros((4, 4))}}, "row id"),
    "no picture": ({"rows": {names(1)[0]: "portrait.png"}}, "picture to be numbers"),
    "no axis": ({"rows": {names(1)[0]: np.float64(1)}}, "picture to be numbers"),
    "film": ({"rows": {names(1)[0]: np.zeros((2, 3, 4, 4))}}, "picture to be numbers"),
}


@pytest.mark.parametrize(("options", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_arguments_that_do_not_fit_are_refused(options, words):
    with pytest.raises(ArgumentError, match=words):
        votes_page(of_images(), images(2)[0], **{"top": 12, **options})


def test_an_empty_memory_is_refused():
    model = of_images()
    model.forget(classes=["dark", "light"])
    with pytest.raises(StateError, match="empty"):
        votes_page(model, images(1)[0])


def test_a_missing_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **options):
        if name == "jinja2":
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"erasable\[bench\]"):
        votes_page(of_images(), images(1)[0])


# -- thumbnails ----------------------------------------------------------------------------------

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("is_first", [True, False])
def test_images_with_channels_keep_their_pixels(channels, is_first):
    image = RNG.integers(0, 256, (5, 7, channels), np.uint8)
    (tag,) = thumbnails([image.transpose(2, 0, 1) if is_first else image])
    np.testing.assert_array_equal(decoded(tag), image)


def test_other_numbers_of_channels_are_averaged():
    image = np.stack([np.full((5, 5), value, np.uint8) for value in (10, 20)])
    np.testing.assert_array_equal(decoded(thumbnails([image])[0]), np.full((5, 5, 1), 15))


def test_numbers_from_0_to_1_are_shown_as_they_are():
    np.testing.assert_array_equal(
        decoded(thumbnails([np.array([[0.2, 0.4]])])[0])[..., 0], [[51, 102]]
    )


def test_other_numbers_are_stretched_alike_for_all_images():
    dark, light = (
        decoded(tag) for tag in thumbnails([np.full((2, 2), -4.0), np.full((2, 2), 16.0)])
    )
    assert (dark == 0).all()
    assert (light == 255).all()


def test_what_is_no_number_is_dark():
    image = np.array([[np.nan, np.inf], [0.0, 4.0]])
    assert decoded(thumbnails([image])[0])[..., 0].tolist() == [[0, 255], [0, 255]]


def test_truth_values_are_black_and_white():
    assert decoded(thumbnails([np.eye(2, dtype=bool)])[0])[..., 0].tolist() == [[255, 0], [0, 255]]


def test_large_images_are_averaged_down():
    image = RNG.integers(0, 256, (250, 100), np.uint8)
    small = decoded(thumbnails([image])[0])[..., 0]
    assert small.shape == (84, 34)
    assert small[0, 0] == np.rint(image[:3, :3].mean())
    assert small[-1, -1] == np.rint(image[249:, 99:].mean())


def test_bars_are_scaled_per_feature():
    low, high = thumbnails([np.array([0.0, 500.0]), np.array([1.0, 900.0])])
    assert re.findall(r"v-(\d+)h", low) == ["1", "1"]
    assert re.findall(r"v-(\d+)h", high) == ["32", "32"]


def test_a_feature_that_never_changes_has_the_shortest_bar():
    assert re.findall(r"v-(\d+)h", thumbnails([np.array([3.0])])[0]) == ["1"]


def test_many_features_share_bars():
    (tag,) = thumbnails([np.arange(200.0)])
    assert len(re.findall(r"v-(\d+)h", tag)) == 50
