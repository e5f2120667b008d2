"""The tables of the unlearning benchmark as commands."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasable.cli._common import (
    AsJson,
    EncoderOption,
    emit,
    named_options,
    require_file,
    say,
)
from erasable.cli._tables import (
    Data,
    Outs,
    Resolution,
    RunsFolder,
    Scale,
    Seeds,
    Smoothing,
    command,
)
from erasable.cli._terminal import print_line
from erasable.errors import ArgumentError, listing

if TYPE_CHECKING:
    from erasable.bench import Document, Group, Harness

Methods = Annotated[
    list[str] | None,
    typer.Option("--method", help="A method that edits weights; can be repeated; default: all."),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        help="What forgets by deletion: knn, spm, sisa, or spm_neighbours, spm_gaussian: the same "
        "weights as spm, read otherwise; can be repeated; default: the first three.",
    ),
]
IsTuned = Annotated[
    bool,
    typer.Option(
        "--tune/--published",
        help="Choose settings by grids and beyond, or as published.",
    ),
]
Singles = Annotated[
    int | None,
    typer.Option(
        "--classes", min=0, help="How many single classes; 0 for all; default: 3, paper: all."
    ),
]
Halves = Annotated[
    int | None,
    typer.Option(min=0, help="How many halves of the classes, 0 for none; default: 1, paper: 10."),
]
ManySeeds = Annotated[
    int | None,
    typer.Option(
        "--seeds", min=1, help="Number of seeds: 0, 1, …; default: 3, paper: 5, or 10 of rows."
    ),
]


def cls_cifar(
    data: Data = "cifar10",
    scale: Scale = "laptop",
    seeds: ManySeeds = None,
    classes: Singles = None,
    halves: Halves = None,
    method: Methods = None,
    kind: Kinds = None,
    tune: IsTuned = True,
    label_smoothing: Smoothing = 0.0,
    encoder_option: EncoderOption = None,
    runs: RunsFolder = Path("out/runs"),
    out: Outs = None,
    as_json: AsJson = False,
) -> None:
    """Forget one class, and half of the classes; every method against its oracle.

    \b
    Examples:
      erasable tables cls_cifar --data fashion-mnist --out classes.md --out classes.csv
      erasable tables cls_cifar --data digits --preset tiny --seeds 1 --classes 1 --published
    """
    from erasable.bench import class_groups

    chosen, is_paper = _chosen(method, kind), scale == "paper"
    single = classes if classes is not None else 0 if is_paper else 3
    harness = open_harness(
        data,
        scale=scale,
        label_smoothing=label_smoothing,
        encoder_option=encoder_option,
        runs=runs,
        out=out,
        is_quiet=as_json,
    )
    groups = class_groups(
        harness.classes,
        single=single or None,
        is_cifar=harness.data_name == "cifar10",
        halves=halves if halves is not None else 10 if is_paper else 1,
    )
    count = seeds or (5 if is_paper else 3)
    _run(harness, groups, count, chosen, out, is_tuned=tune, as_json=as_json)


def cls_random(
    data: Data = "cifar10",
    scale: Scale = "laptop",
    seeds: ManySeeds = None,
    share: Annotated[
        list[int] | None,
        typer.Option(min=1, max=99, help="Percentage to forget; can be repeated; default: 10, 50."),
    ] = None,
    method: Methods = None,
    kind: Kinds = None,
    tune: IsTuned = True,
    label_smoothing: Smoothing = 0.0,
    encoder_option: EncoderOption = None,
    runs: RunsFolder = Path("out/runs"),
    out: Outs = None,
    as_json: AsJson = False,
) -> None:
    """Forget random rows; every method against its oracle.

    \b
    Examples:
      erasable tables cls_random --data fashion-mnist --share 10 --out random.md
      erasable tables cls_random --data digits --preset tiny --seeds 1 --published
    """
    from erasable.bench import random_groups, suitable

    chosen = _chosen(method, kind)
    unable = sorted(set(method or []) - set(suitable(chosen[0], is_class=False)))
    if unable:
        raise ArgumentError(
            f"Expected methods that forget single rows, but {listing(unable)} only forget whole "
            "classes."
        )
    harness = open_harness(
        data,
        scale=scale,
        label_smoothing=label_smoothing,
        encoder_option=encoder_option,
        runs=runs,
        out=out,
        is_quiet=as_json,
    )
    groups = random_groups(share or [10, 50], is_cifar=harness.data_name == "cifar10")
    count = seeds or (10 if scale == "paper" else 3)
    _run(harness, groups, count, chosen, out, is_tuned=tune, as_json=as_json)


def cls_imagenet(
    data: Annotated[str, typer.Option(help="A folder of images: one folder per class.")],
    scale: Scale = "paper",
    seeds: Seeds = 1,
    classes: Annotated[int, typer.Option(min=1, help="How many single classes.")] = 10,
    method: Methods = None,
    kind: Kinds = None,
    tune: IsTuned = False,
    label_smoothing: Smoothing = 0.0,
    encoder_option: EncoderOption = None,
    runs: RunsFolder = Path("out/runs"),
    out: Outs = None,
    resolution: Resolution = None,
    as_json: AsJson = False,
) -> None:
    """Forget one class of any folder in the layout of ImageNet.

    \b
    Examples:
      erasable tables cls_imagenet --data imagenet/ --out imagenet.md
      erasable tables cls_imagenet --data photographs/ --preset tiny --resolution 32 --classes 2
    """
    from erasable.bench import imagenet_groups

    chosen = _chosen(method, kind)
    harness = open_harness(
        data,
        resolution=resolution,
        scale=scale,
        label_smoothing=label_smoothing,
        encoder_option=encoder_option,
        runs=runs,
        out=out,
        is_quiet=as_json,
    )
    groups = imagenet_groups(harness.classes, single=classes)
    _run(harness, groups, seeds, chosen, out, is_tuned=tune, as_json=as_json)


def gnn(
    data: Data = "cifar10",
    scale: Scale = "laptop",
    seeds: Seeds = 3,
    label_smoothing: Smoothing = 0.0,
    encoder_option: EncoderOption = None,
    runs: RunsFolder = Path("out/runs"),
    out: Outs = None,
    as_json: AsJson = False,
) -> None:
    """Accuracy and forgetting with a graph set encoder, beside the same model without.

    \b
    Examples:
      erasable tables gnn --data fashion-mnist --out gnn.md
      erasable tables gnn --data digits --preset tiny --seeds 1
    """
    from erasable.bench import (
        class_groups,
        graph_note,
        random_groups,
        run_unlearning,
        unlearning_document,
    )

    harness = open_harness(
        data,
        scale=scale,
        label_smoothing=label_smoothing,
        encoder_option=encoder_option,
        runs=runs,
        out=out,
        is_quiet=as_json,
    )
    one = class_groups(harness.classes, single=1, is_cifar=False)[0]
    made = run_unlearning(
        harness,
        [one, *random_groups([10], is_cifar=False)],
        seeds=list(range(seeds)),
        edits=(),
        kinds=("spm", "gnn"),
        say=say,
    )
    made.sheets[0].notes.insert(0, graph_note(made))
    title = f"The graph set encoder on {harness.data_name}"
    document = unlearning_document(title, made, harness.classes, command())
    found = {"runs": [vars(run) for run in made.runs], "searched": made.searched}
    _show(document, out, found, as_json=as_json)


def sequence(
    data: Data = "cifar10",
    scale: Scale = "laptop",
    seeds: Seeds = 3,
    rule: Annotated[
        str | None,
        typer.Option(help="Requests with '>' between them; default: a class, 5 % at random, …"),
    ] = None,
    method: Methods = None,
    kind: Kinds = None,
    tune: IsTuned = True,
    label_smoothing: Smoothing = 0.0,
    encoder_option: EncoderOption = None,
    runs: RunsFolder = Path("out/runs"),
    out: Outs = None,
    as_json: AsJson = False,
) -> None:
    """Do several requests one after the other; every method against oracles after each.

    \b
    Examples:
      erasable tables sequence --data fashion-mnist --out sequence.md
      erasable tables sequence --data digits --preset tiny --seeds 1 --rule 'class:3 > random:5%'
    """
    from erasable.bench import default_sequence, run_sequence, sequence_document, tuning_of

    edits, kinds = _chosen(method, kind)
    harness = open_harness(
        data,
        scale=scale,
        label_smoothing=label_smoothing,
        encoder_option=encoder_option,
        runs=runs,
        out=out,
        is_quiet=as_json,
    )
    requests = rule or default_sequence(harness.classes)
    made = run_sequence(
        harness,
        requests,
        seeds=list(range(seeds)),
        edits=edits,
        kinds=kinds,
        tuning=tuning_of(harness.classes, requests) if tune else None,
        say=say,
    )
    every = [vars(run) for some in made.runs.values() for run in some]
    document = sequence_document(made, command())
    _show(document, out, {"runs": every, "searched": made.searched}, as_json=as_json)


def tradeoff(
    data: Data = "fashion-mnist",
    public: Annotated[
        str | None, typer.Option(help="Public data of the same shape, to start encoders from.")
    ] = None,
    scale: Scale = "laptop",
    seeds: Annotated[int, typer.Option(min=2, help="Number of seeds: 0, 1, …")] = 3,
    runs: RunsFolder = Path("out/runs"),
    out: Outs = None,
    as_json: AsJson = False,
) -> None:
    """Accuracy against forgetting of random rows, for weights that know less of the rows.

    \b
    Examples:
      erasable tables tradeoff --data fashion-mnist --public mnist --out tradeoff.md
      erasable tables tradeoff --data digits --preset tiny --seeds 2
    """
    from erasable.bench import Runs, require_form, run_tradeoff, tradeoff_document
    from erasable.data import load_dataset

    for path in out or []:
        require_file(path)
        require_form(path)
    points = run_tradeoff(
        load_dataset(data),
        scale=scale,
        seeds=list(range(seeds)),
        runs=Runs(runs),
        public=None if public is None else load_dataset(public),
        say=say,
        verbose=not as_json,
    )
    every = [vars(run) for point in points for run in (*point.runs, *point.oracles)]
    _show(tradeoff_document(points, command()), out, {"runs": every}, as_json=as_json)


def _run(
    harness: "Harness",
    groups: "list[Group]",
    seeds: int,
    chosen: tuple[tuple[str, ...], tuple[str, ...]],
    out: list[Path] | None,
    *,
    is_tuned: bool,
    as_json: bool,
) -> None:
    from erasable.bench import run_unlearning, unlearning_document

    edits, kinds = chosen
    made = run_unlearning(
        harness,
        groups,
        seeds=list(range(seeds)),
        edits=edits,
        kinds=kinds,
        is_tuned=is_tuned,
        say=say,
    )
    title = f"Unlearning on {harness.data_name}"
    document = unlearning_document(title, made, harness.classes, command())
    found = {"runs": [vars(run) for run in made.runs], "searched": made.searched}
    _show(document, out, found, as_json=as_json)


def _chosen(
    method: list[str] | None, kind: list[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return methods and kinds in the order of the tables."""
    from erasable.baselines import WeightMethod, methods
    from erasable.bench import DELETIONS, EDITS, EVERY_DELETION

    others = [name for name, one in methods().items() if issubclass(one, WeightMethod)]
    known = [*EDITS, *(name for name in others if name not in EDITS)]
    _refuse_unknown("methods", method, known)
    _refuse_unknown("kinds", kind, EVERY_DELETION)
    edits = [name for name in known if (name in EDITS if method is None else name in method)]
    kinds = [name for name in EVERY_DELETION if name in (DELETIONS if kind is None else kind)]
    return tuple(edits), tuple(kinds)


def _refuse_unknown(what: str, wanted: list[str] | None, known: "Sequence[str]") -> None:
    unknown = sorted(set(wanted or []) - set(known))
    if unknown:
        raise ArgumentError(f"Expected {what} among {listing(known)}, but got {listing(unknown)}.")


def open_harness(
    data: str,
    *,
    scale: str,
    label_smoothing: float,
    encoder_option: list[str] | None,
    runs: Path,
    is_quiet: bool,
    resolution: int | None = None,
    out: list[Path] | None = None,
) -> "Harness":
    """Return the harness of a data set, from the words of a command; bad pages are refused first.

    Args:
        data: The data set.
        scale: The preset.
        label_smoothing: Of every model that is trained.
        encoder_option: Options of the encoder, NAME=VALUE.
        runs: Folder of finished runs.
        is_quiet: Show no progress.
        resolution: Height and width that images of a folder get.
        out: Pages that are to be written.
    """
    from erasable.bench import Harness, Runs, require_form
    from erasable.data import load_dataset

    for path in out or []:
        require_file(path)
        require_form(path)
    return Harness(
        load_dataset(data, resolution=resolution),
        scale=scale,
        runs=Runs(runs),
        label_smoothing=label_smoothing,
        encoder_options=named_options("--encoder-option", encoder_option),
        say=say,
        verbose=not is_quiet,
    )


def _show(
    document: "Document", out: list[Path] | None, found: dict[str, Any], *, as_json: bool
) -> None:
    from rich.console import Console

    for path in out or []:
        document.write(path)
    if as_json:
        emit({**found, "facts": list(document.facts)}, as_json=True, lines=[])
        return
    document.show(Console())
    for path in out or []:
        print_line(f"Page: {path}")
