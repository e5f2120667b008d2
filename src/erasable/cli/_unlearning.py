"""``erasable tables cls_cifar``, ``cls_random``, ``cls_imagenet``."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from erasable.cli._common import AsJson, emit, require_file, say
from erasable.cli._tables import Data, Resolution, RunsFolder, Scale, Seeds, command
from erasable.errors import ArgumentError, listing

if TYPE_CHECKING:
    from erasable.bench import Group
    from erasable.data import Dataset

Outs = Annotated[
    list[Path] | None,
    typer.Option(
        "--out", help="Write to this file, by its ending: .md, .csv, .tex, .html; can be repeated."
    ),
]
Methods = Annotated[
    list[str] | None,
    typer.Option("--method", help="A method that edits weights; can be repeated; default: all."),
]
IsTuned = Annotated[
    bool,
    typer.Option(
        "--tune/--published", help="Choose settings by the documented grids, or as published."
    ),
]
Singles = Annotated[
    int | None,
    typer.Option("--classes", min=1, help="How many single classes to forget; default: all."),
]


def cls_cifar(
    data: Data = "cifar10",
    scale: Scale = "laptop",
    seeds: Seeds = 3,
    classes: Singles = 3,
    method: Methods = None,
    tune: IsTuned = True,
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

    def groups(loaded: "Dataset", labels: list[Any]) -> "list[Group]":
        return class_groups(labels, single=classes, is_cifar=loaded.name == "cifar10")

    _run(data, None, scale, seeds, method, runs, out, groups, is_tuned=tune, as_json=as_json)


def cls_random(
    data: Data = "cifar10",
    scale: Scale = "laptop",
    seeds: Seeds = 3,
    share: Annotated[
        list[int] | None,
        typer.Option(min=1, max=99, help="Percentage to forget; can be repeated; default: 10, 50."),
    ] = None,
    method: Methods = None,
    tune: IsTuned = True,
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
    from erasable.bench import random_groups

    def groups(loaded: "Dataset", labels: list[Any]) -> "list[Group]":
        return random_groups(share or [10, 50], is_cifar=loaded.name == "cifar10")

    _run(data, None, scale, seeds, method, runs, out, groups, is_tuned=tune, as_json=as_json)


def cls_imagenet(
    data: Annotated[str, typer.Option(help="A folder of images: one folder per class.")],
    scale: Scale = "paper",
    seeds: Seeds = 1,
    classes: Annotated[int, typer.Option(min=1, help="How many single classes.")] = 10,
    method: Methods = None,
    tune: IsTuned = False,
    runs: RunsFolder = Path("out/runs"),
    out: Outs = None,
    resolution: Resolution = None,
    as_json: AsJson = False,
) -> None:
    """Forget one class of any folder in the layout of ImageNet.

    \b
    Examples:
      erasable tables cls_imagenet --data imagenet/ --out imagenet.md
    """
    from erasable.bench import imagenet_groups

    def groups(loaded: "Dataset", labels: list[Any]) -> "list[Group]":
        return imagenet_groups(labels, single=classes)

    _run(data, resolution, scale, seeds, method, runs, out, groups, is_tuned=tune, as_json=as_json)


def _run(
    data: str,
    resolution: int | None,
    scale: str,
    seeds: int,
    method: list[str] | None,
    runs: Path,
    out: list[Path] | None,
    groups: "Callable[[Dataset, list[Any]], list[Group]]",
    *,
    is_tuned: bool,
    as_json: bool,
) -> None:
    from erasable.bench import EDITS, FORMS, Harness, Runs, run_unlearning, unlearning_page
    from erasable.data import load_dataset
    from erasable.files import write_atomically

    for path in out or []:
        require_file(path)
        if path.suffix.removeprefix(".") not in FORMS:
            raise ArgumentError(
                f"Expected a file that ends in {listing(FORMS)}, but got {path.name!r}."
            )
    unknown = set(method or []) - set(EDITS)
    if unknown:
        raise ArgumentError(f"Expected methods among {listing(EDITS)}, but got {listing(unknown)}.")
    loaded = load_dataset(data, resolution=resolution)
    harness = Harness(loaded, scale=scale, runs=Runs(runs), say=say, verbose=not as_json)
    sheets, found, searched = run_unlearning(
        harness,
        groups(loaded, harness.classes),
        seeds=list(range(seeds)),
        edits=tuple(name for name in EDITS if method is None or name in method),
        is_tuned=is_tuned,
        say=say,
    )
    for path in out or []:
        text = unlearning_page(path.suffix[1:], sheets, found, searched, command())
        write_atomically(path, text.encode())
    if as_json:
        plain = {title: [vars(run) for run in group.runs] for title, group in found.items()}
        emit({"runs": plain, "searched": searched}, as_json=True, lines=[])
        return
    for sheet in sheets:
        sheet.show(Console())
    for path in out or []:
        print(f"Page: {path}")
