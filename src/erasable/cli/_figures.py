"""``erasable figures``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasable.cli._common import require_file, say
from erasable.cli._tables import Data, RunsFolder, Scale
from erasable.errors import ArgumentError

if TYPE_CHECKING:
    from erasable.bench.generation import Generators

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
Seed = Annotated[int, typer.Option(help="Seed of the model.")]
PerClass = Annotated[int, typer.Option("--per-class", min=1, help="Images per class.")]


@figures_app.command("samples")
def samples(
    data: Data = "mnist",
    scale: Scale = "laptop",
    per_class: PerClass = 1,
    seed: Seed = 0,
    runs: RunsFolder = Path("out/runs"),
    out: Out = Path("samples.png"),
) -> None:
    """What is drawn before, and after each half of the classes was forgotten, from equal noise.

    \b
    Examples:
      erasable figures samples --data mnist --out samples.png
      erasable figures samples --data digits --preset tiny --per-class 3
    """
    generators = _generators(data, scale, runs, out)
    from erasable.bench.generation import before_and_after

    _write(out, before_and_after(generators, seed, per_class=per_class))


@figures_app.command("gmm")
def gmm(
    data: Data = "mnist",
    scale: Scale = "laptop",
    per_class: PerClass = 3,
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
    generators = _generators(data, scale, runs, out)
    from erasable.bench.generation import first_of_each, image_grid

    images, _ = generators.original_samples("gmm", seed)
    chosen = first_of_each(generators, images, min(per_class, generators.per_class))
    count = len(generators.classes)
    rows = [("", chosen[at : at + count]) for at in range(0, len(chosen), count)]
    _write(out, image_grid(rows, [str(label) for label in generators.classes]))


@figures_app.command("pipeline")
def pipeline(
    data: Data = "mnist",
    scale: Scale = "laptop",
    label: Annotated[
        str | None, typer.Option("--class", help="The class to ask for; default: the third.")
    ] = None,
    seed: Seed = 0,
    runs: RunsFolder = Path("out/runs"),
    out: Out = Path("pipeline.png"),
) -> None:
    """How a request reads rows, and what it reads after they were forgotten.

    \b
    Examples:
      erasable figures pipeline --data mnist --class 7 --out pipeline.png
      erasable figures pipeline --data digits --preset tiny
    """
    generators = _generators(data, scale, runs, out)
    from erasable.bench.generation import pipeline_picture

    known: dict[str, Any] = {str(one): one for one in generators.classes}
    word = label or list(known)[min(2, len(known) - 1)]
    if word not in known:
        raise ArgumentError(f"Expected a class among {', '.join(known)}, but got {word!r}.")
    picture = pipeline_picture(generators.fresh("spm", seed), generators.pictures(), known[word])
    _write(out, picture)


@figures_app.command("teaser")
def teaser(out: Out = Path("teaser.png")) -> None:
    """The method on a toy: decision regions before, retrained, and after deletion.

    \b
    Examples:
      erasable figures teaser --out teaser.png
    """
    from erasable.bench import run_teaser, teaser_figure

    require_file(out)
    _write(out, teaser_figure(run_teaser(seed=0)))


def _generators(data: str, scale: str, runs: Path, out: Path) -> "Generators":
    from erasable.bench import Runs
    from erasable.data import load_dataset
    from erasable.models import require_diffusion

    require_diffusion()
    from erasable.bench.generation import Generators

    require_file(out)
    return Generators(load_dataset(data), scale=scale, runs=Runs(runs), say=say, verbose=True)


def _write(out: Path, png: bytes) -> None:
    from erasable.files import write_atomically

    write_atomically(out, png)
    print(f"Picture: {out}")
