"""The tables and figures of generation as commands."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasable.cli._common import AsJson, emit, named_options, require_file, say
from erasable.cli._tables import Data, Outs, RunsFolder, command
from erasable.cli._terminal import print_line

if TYPE_CHECKING:
    from erasable.bench import Document
    from erasable.bench.generation import Drawings, Generators
    from erasable.metrics import FeatureNetwork

GenerationSeeds = Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds: 0, 1, …")]
Forgotten = Annotated[
    list[str] | None,
    typer.Option(
        "--class", metavar="CLASS", help="A class to forget; can be repeated; default: every other."
    ),
]
Features = Annotated[
    str,
    typer.Option(
        metavar="NAME[:FILE]",
        help="What FID is measured by: classifier, or inception (with a file of its weights).",
    ),
]
Scale = Annotated[str, typer.Option("--preset", help="tiny, demo, laptop, paper, or trial.")]
Floors = Annotated[
    int, typer.Option(min=0, help="For how many classes two oracles are compared: the floor.")
]
NetworkOption = Annotated[
    list[str] | None,
    typer.Option(
        "--network-option",
        metavar="NAME=VALUE",
        help="A parameter of networks or of their training instead of the preset's, such as "
        "steps=3000 or precision=bfloat16; can be repeated.",
    ),
]
DrawingSteps = Annotated[
    int | None,
    typer.Option(
        "--drawing-steps", min=1, max=1000, help="Denoising steps of an image; default: 50."
    ),
]
StandIn = Annotated[
    str | None,
    typer.Option(
        metavar="CLASS",
        help="Whose rows are read for a class that was forgotten; default, and where that is the "
        "class itself: the first that is left.",
    ),
]
Untuned = Annotated[
    bool, typer.Option("--untuned", help="Leave methods as the preset has them: nothing is tuned.")
]


def std_ddpm(
    data: Data = "mnist",
    scale: Scale = "laptop",
    seeds: GenerationSeeds = 1,
    features: Features = "classifier",
    network_option: NetworkOption = None,
    drawing_steps: DrawingSteps = None,
    runs: RunsFolder = Path("out/runs"),
    out: Outs = None,
    as_json: AsJson = False,
) -> None:
    """Quality and time of generation, by the number of rows that are read.

    \b
    Examples:
      erasable tables std_ddpm --data mnist --out std_ddpm.md
      erasable tables std_ddpm --data digits --preset tiny
    """
    drawings = drawings_of(
        data,
        scale=scale,
        runs=runs,
        features=features,
        network_option=network_option,
        steps=drawing_steps,
        out=out,
        is_quiet=as_json,
    )
    from erasable.bench.generation import run_standard, standard_document

    found = run_standard(drawings, seeds=list(range(seeds)))
    document = standard_document(drawings, found, command(), "Generation")
    _show(document, out, [vars(run) for some in found.values() for run in some], as_json=as_json)


def variants(
    data: Data = "mnist",
    scale: Scale = "laptop",
    seeds: GenerationSeeds = 1,
    features: Features = "classifier",
    network_option: NetworkOption = None,
    drawing_steps: DrawingSteps = None,
    runs: RunsFolder = Path("out/runs"),
    out: Outs = None,
    as_json: AsJson = False,
) -> None:
    """How the memory of a generator is trained and read: what each way costs and gives.

    \b
    Examples:
      erasable tables variants --data digits --preset demo --seeds 3
      erasable tables variants --data mnist --out variants.md
    """
    drawings = drawings_of(
        data,
        scale=scale,
        runs=runs,
        features=features,
        network_option=network_option,
        steps=drawing_steps,
        out=out,
        is_quiet=as_json,
    )
    from erasable.bench.generation import run_variants, standard_document

    found = run_variants(drawings, seeds=list(range(seeds)))
    document = standard_document(drawings, found, command(), "Variants of the generator")
    _show(document, out, [vars(run) for some in found.values() for run in some], as_json=as_json)


def ddpm(
    data: Data = "mnist",
    scale: Scale = "laptop",
    seeds: GenerationSeeds = 1,
    classes: Forgotten = None,
    floors: Floors = 1,
    stand_in: StandIn = None,
    is_untuned: Untuned = False,
    features: Features = "classifier",
    network_option: NetworkOption = None,
    drawing_steps: DrawingSteps = None,
    runs: RunsFolder = Path("out/runs"),
    out: Outs = None,
    as_json: AsJson = False,
) -> None:
    """Forget one class of a generator: deletion against methods that edit weights.

    \b
    Examples:
      erasable tables ddpm --data mnist --out ddpm.md --out ddpm.csv
      erasable tables ddpm --data digits --preset tiny --class 1
    """
    drawings = drawings_of(
        data,
        scale=scale,
        runs=runs,
        features=features,
        network_option=network_option,
        steps=drawing_steps,
        stand_in=stand_in,
        out=out,
        is_quiet=as_json,
    )
    _forgetting(
        drawings,
        "Forgetting a class in generation",
        ("ft", "sa", "salun", "sfron"),
        ("spm",),
        (seeds, classes, floors, out),
        is_tuned=not is_untuned,
        as_json=as_json,
    )


def label_perm(
    data: Data = "mnist",
    scale: Scale = "laptop",
    seeds: GenerationSeeds = 1,
    classes: Forgotten = None,
    floors: Floors = 1,
    stand_in: StandIn = None,
    features: Features = "classifier",
    network_option: NetworkOption = None,
    drawing_steps: DrawingSteps = None,
    runs: RunsFolder = Path("out/runs"),
    out: Outs = None,
    as_json: AsJson = False,
) -> None:
    """What label embeddings, permuted or not, do to deletion.

    \b
    Examples:
      erasable tables label_perm --data mnist --out label_perm.md
      erasable tables label_perm --data digits --preset tiny --class 1
    """
    drawings = drawings_of(
        data,
        scale=scale,
        runs=runs,
        features=features,
        network_option=network_option,
        steps=drawing_steps,
        stand_in=stand_in,
        out=out,
        is_quiet=as_json,
    )
    _forgetting(
        drawings,
        "Label embeddings and deletion",
        (),
        ("spm", "spm_permuted", "spm_plain"),
        (seeds, classes, floors, out),
        floored=("spm",),
        is_tuned=False,
        as_json=as_json,
    )


def erasediff(
    data: Data = "mnist",
    scale: Scale = "laptop",
    seeds: GenerationSeeds = 1,
    classes: Forgotten = None,
    floors: Floors = 1,
    stand_in: StandIn = None,
    is_untuned: Untuned = False,
    features: Features = "classifier",
    network_option: NetworkOption = None,
    drawing_steps: DrawingSteps = None,
    runs: RunsFolder = Path("out/runs"),
    out: Outs = None,
    as_json: AsJson = False,
) -> None:
    """Forget one class of a generator: deletion against EraseDiff.

    \b
    Examples:
      erasable tables erasediff --data mnist --out erasediff.md
      erasable tables erasediff --data digits --preset tiny --class 1
    """
    drawings = drawings_of(
        data,
        scale=scale,
        runs=runs,
        features=features,
        network_option=network_option,
        steps=drawing_steps,
        stand_in=stand_in,
        out=out,
        is_quiet=as_json,
    )
    _forgetting(
        drawings,
        "Forgetting a class in generation, against EraseDiff",
        ("ft", "erasediff"),
        ("spm",),
        (seeds, classes, floors, out),
        is_tuned=not is_untuned,
        as_json=as_json,
    )


def reminded(
    data: Data = "mnist",
    scale: Scale = "laptop",
    seeds: GenerationSeeds = 1,
    classes: Forgotten = None,
    features: Features = "classifier",
    network_option: NetworkOption = None,
    drawing_steps: DrawingSteps = None,
    runs: RunsFolder = Path("out/runs"),
    out: Outs = None,
    as_json: AsJson = False,
) -> None:
    """What the weights keep of a forgotten class: it is asked for beside other images of it.

    \b
    Examples:
      erasable tables reminded --data mnist --out reminded.md
      erasable tables reminded --data digits --preset tiny --class 1
    """
    drawings = drawings_of(
        data,
        scale=scale,
        runs=runs,
        features=features,
        network_option=network_option,
        steps=drawing_steps,
        out=out,
        is_quiet=as_json,
    )
    from erasable.bench.generation import reminded_document, run_reminded

    made = run_reminded(drawings, _labels(drawings.generators, classes), seeds=list(range(seeds)))
    document = reminded_document(drawings, made, command())
    _show(document, out, [vars(run) for some in made.values() for run in some], as_json=as_json)


def _forgetting(
    drawings: "Drawings",
    title: str,
    methods: tuple[str, ...],
    kinds: tuple[str, ...],
    arguments: tuple[int, list[str] | None, int, list[Path] | None],
    *,
    floored: tuple[str, ...] | None = None,
    is_tuned: bool,
    as_json: bool,
) -> None:
    seeds, classes, floors, out = arguments
    from erasable.bench.generation import forgetting_document, run_forgetting

    made = run_forgetting(
        drawings,
        _labels(drawings.generators, classes),
        seeds=list(range(seeds)),
        methods=methods,
        kinds=kinds,
        floors=floors,
        floored=floored,
        is_tuned=is_tuned,
        say=say,
    )
    document = forgetting_document(drawings, made, title, command())
    _show(document, out, [vars(run) for run in made.every], as_json=as_json, failures=made.failures)


def _labels(generators: "Generators", words: list[str] | None, flag: str = "--class") -> list[Any]:
    """Return the classes to forget: those named, or every other one as the paper does."""
    from erasable.errors import ArgumentError, listing

    if words is None:
        return generators.classes[1::2]
    known = {str(label): label for label in generators.classes}
    unknown = [word for word in words if word not in known]
    if unknown:
        raise ArgumentError(
            f"Expected {flag} to name classes among {', '.join(known)}, but got {listing(unknown)}."
        )
    return [known[word] for word in dict.fromkeys(words)]


def drawings_of(
    data: str,
    *,
    scale: str,
    runs: Path,
    features: str = "classifier",
    network_option: list[str] | None = None,
    steps: int | None = None,
    stand_in: str | None = None,
    out: list[Path] | None = None,
    is_quiet: bool = False,
) -> "Drawings":
    """Return what draws and measures, from the words of a command; bad pages are refused first.

    Args:
        data: The data set.
        scale: The preset.
        runs: Folder of finished runs.
        features: What distances are measured by.
        network_option: Parameters of networks, NAME=VALUE.
        steps: Denoising steps of an image; default: 50.
        stand_in: Whose rows are read for a class that was forgotten.
        out: Pages that are to be written.
        is_quiet: Show no progress.
    """
    from erasable._extras import require_diffusion
    from erasable.bench import Runs, pyplot, require_form
    from erasable.data import load_dataset

    for path in out or []:
        require_file(path)
        require_form(path)
    require_diffusion()
    pyplot()  # to refuse now, not after training
    from erasable.bench.generation import Drawings, Generators

    generators = Generators(
        load_dataset(data),
        scale=scale,
        runs=Runs(runs),
        say=say,
        verbose=not is_quiet,
        features=_features(features),
        network=named_options("--network-option", network_option),
    )
    if stand_in is not None:
        generators.stand_in = _labels(generators, [stand_in], "--stand-in")[0]
    return Drawings(generators, steps=steps)


def _features(word: str) -> "FeatureNetwork | None":
    """Return a feature network by its word; None for the judge's own."""
    from erasable.errors import ArgumentError, MissingExtraError
    from erasable.metrics import InceptionFeatures

    name, _, file = word.partition(":")
    if name == "classifier" and not file:
        return None
    if name != "inception":
        raise ArgumentError(f"Expected classifier or inception[:FILE], but got {word!r}.")
    try:
        return InceptionFeatures(file or None)
    except MissingExtraError as error:
        raise MissingExtraError(f"{error} Or leave out --features.") from error


def _show(
    document: "Document",
    out: list[Path] | None,
    runs: list[Any],
    *,
    as_json: bool,
    failures: dict[str, str] | None = None,
) -> None:
    from rich.console import Console

    for path in out or []:
        document.write(path)
    if as_json:
        found = {"runs": runs, "facts": list(document.facts), "failures": failures or {}}
        emit(found, as_json=True, lines=[])
        return
    document.show(Console())
    for path in out or []:
        print_line(f"Page: {path}")
