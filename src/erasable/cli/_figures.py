"""``erasable figures``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasable.cli._common import require_png
from erasable.cli._generation import NetworkOption, Scale, drawings_of
from erasable.cli._tables import Data, RunsFolder
from erasable.cli._terminal import print_line
from erasable.errors import ArgumentError

if TYPE_CHECKING:
    from erasable.bench.generation import Drawings

figures_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="""Draw the paper's pictures, from models of your own.

Models are trained once and kept in the folder that --runs names.

\b
Examples:
  erasable figures teaser --out teaser.png
  erasable figures samples --data mnist --per-class 3 --out samples.png
""",
)

Out = Annotated[Path, typer.Option(help="PNG file to write.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the model.")]
PerClass = Annotated[int, typer.Option("--per-class", min=1, help="Images per class.")]


@figures_app.command("samples")
def samples(
    data: Data = "mnist",
    scale: Scale = "laptop",
    per_class: PerClass = 1,
    seed: Seed = 0,
    network_option: NetworkOption = None,
    runs: RunsFolder = Path("out/runs"),
    out: Out = Path("samples.png"),
) -> None:
    """What is drawn before, and after each half of the classes was forgotten, from equal noise.

    \b
    Examples:
      erasable figures samples --data mnist --out samples.png
      erasable figures samples --data digits --preset tiny --per-class 3
    """
    generators = _drawings(data, scale, network_option, runs, out).generators
    from erasable.bench.generation import before_and_after

    _write(out, before_and_after(generators, seed, per_class=per_class))


@figures_app.command("gmm")
def gmm(
    data: Data = "mnist",
    scale: Scale = "laptop",
    per_class: Annotated[
        int | None, typer.Option(min=1, help="Images per class; default: 3, or all there are.")
    ] = None,
    seed: Seed = 0,
    runs: RunsFolder = Path("out/runs"),
    out: Out = Path("gmm.png"),
) -> None:
    """What mixtures of Gaussians draw.

    \b
    Examples:
      erasable figures gmm --data mnist --out gmm.png
      erasable figures gmm --data digits --preset tiny
    """
    drawings = _drawings(data, scale, None, runs, out)
    from erasable.bench.generation import first_of_each, image_grid

    count = min(3, drawings.per_class) if per_class is None else per_class
    if count > drawings.per_class:
        raise ArgumentError(
            f"Expected --per-class up to {drawings.per_class} with --preset {scale}, but got "
            f"{count}."
        )
    images = drawings.of_original("gmm", seed)
    chosen = first_of_each(drawings, images, count)
    names = [str(label) for label in drawings.generators.classes]
    rows = [("", chosen[at : at + len(names)]) for at in range(0, len(chosen), len(names))]
    _write(out, image_grid(rows, names))


@figures_app.command("pipeline")
def pipeline(
    data: Data = "mnist",
    scale: Scale = "laptop",
    label: Annotated[
        str | None, typer.Option("--class", help="The class to ask for; default: the third.")
    ] = None,
    seed: Seed = 0,
    network_option: NetworkOption = None,
    runs: RunsFolder = Path("out/runs"),
    out: Out = Path("pipeline.png"),
) -> None:
    """How a request reads rows, and what it reads after they were forgotten.

    \b
    Examples:
      erasable figures pipeline --data mnist --class 7 --out pipeline.png
      erasable figures pipeline --data digits --preset tiny
    """
    generators = _drawings(data, scale, network_option, runs, out).generators
    from erasable.bench.generation import pipeline_picture

    chosen = _class(generators.classes, label)
    picture = pipeline_picture(generators.fresh("spm", seed), generators.pictures(), chosen)
    _write(out, picture)


@figures_app.command("votes")
def votes(
    data: Data = "mnist",
    scale: Scale = "laptop",
    label: Annotated[
        str | None, typer.Option("--class", help="The class to ask for; default: the third.")
    ] = None,
    n: Annotated[int, typer.Option("--n", min=1, help="Images.")] = 3,
    top: Annotated[int, typer.Option(min=1, help="Rows per image.")] = 6,
    seed: Seed = 0,
    network_option: NetworkOption = None,
    runs: RunsFolder = Path("out/runs"),
    out: Out = Path("votes.png"),
) -> None:
    """Which training images, and which of their patches, what is drawn was read from.

    \b
    Examples:
      erasable figures votes --data mnist --class 7 --out votes.png
      erasable figures votes --data digits --preset tiny
    """
    generators = _drawings(data, scale, network_option, runs, out).generators
    import torch

    from erasable.bench.generation import votes_picture

    asked = [_class(generators.classes, label)] * n
    model = generators.model("spm", seed)
    images = model.sample(asked, generator=torch.Generator().manual_seed(seed))
    _write(out, votes_picture(images, model.votes(images, asked, top), generators.pictures()))


@figures_app.command("teaser")
def teaser(out: Out = Path("teaser.png")) -> None:
    """The method on a toy: decision regions before, retrained, and after deletion.

    \b
    Examples:
      erasable figures teaser --out teaser.png
    """
    from erasable.bench import run_teaser, teaser_figure

    require_png(out)
    _write(out, teaser_figure(run_teaser(seed=0)))


def _class(classes: list[Any], word: str | None) -> Any:
    """Return the class that a word names; without one, the third."""
    known = {str(one): one for one in classes}
    chosen = list(known)[min(2, len(known) - 1)] if word is None else word
    if chosen not in known:
        raise ArgumentError(f"Expected a class among {', '.join(known)}, but got {chosen!r}.")
    return known[chosen]


def _drawings(
    data: str, scale: str, network_option: list[str] | None, runs: Path, out: Path
) -> "Drawings":
    require_png(out)
    return drawings_of(data, scale=scale, network_option=network_option, runs=runs)


def _write(out: Path, png: bytes) -> None:
    from erasable.files import write_atomically

    write_atomically(out, png)
    print_line(f"Picture: {out}")
