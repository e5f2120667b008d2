"""``erasable tables``."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from erasable.cli._common import AsJson, emit, require_file, say
from erasable.errors import ArgumentError

tables_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="""Run the experiments behind a table, and write it as a page.

Finished runs are kept in the folder that --runs names: interrupted, the same command goes on.

\b
Examples:
  erasable tables std_cls --data cifar10 --preset laptop
  erasable tables exact --data cifar10 --encoder efficientnet_lite0:160
  erasable tables share --data cifar10 --preset laptop
  erasable tables gap --data fashion-mnist --preset laptop
""",
)

Data = Annotated[
    str, typer.Option(help="A data set's name, or the path of a folder of images or a table.")
]
Smoothing = Annotated[
    float,
    typer.Option(
        "--label-smoothing", min=0, max=0.99, help="Of all trainings; the preset's does not count."
    ),
]
Scale = Annotated[str, typer.Option("--preset", help="tiny, laptop, fast, accurate or paper.")]
Seeds = Annotated[int, typer.Option(min=1, help="Number of seeds: 0, 1, …")]
RunsFolder = Annotated[Path, typer.Option("--runs", help="Folder of finished runs.")]
Out = Annotated[Path | None, typer.Option(help="Write the page to this file, in Markdown.")]
Outs = Annotated[
    list[Path] | None,
    typer.Option(
        "--out", help="Write to this file, by its ending: .md, .csv, .tex, .html; can be repeated."
    ),
]
Resolution = Annotated[int | None, typer.Option(help="Height and width of images from files.")]
Cache = Annotated[
    Path | None,
    typer.Option(
        "--embedding-cache", help="Folder to keep embeddings in; default: with the data sets."
    ),
]


@tables_app.command("std_cls")
def std_cls(
    data: Data = "cifar10",
    scale: Scale = "laptop",
    seeds: Seeds = 3,
    runs: RunsFolder = Path("out/runs"),
    out: Outs = None,
    resolution: Resolution = None,
    as_json: AsJson = False,
) -> None:
    """Accuracy and test time of parametric, KNN and semi-parametric classifiers.

    DATA may be any folder in the layout of ImageNet: one folder of images per class.

    \b
    Examples:
      erasable tables std_cls --data fashion-mnist --seeds 3 --out fashion-mnist.md
      erasable tables std_cls --data imagenet/ --preset paper
    """
    from erasable.bench import Runs, require_form, run_std_cls, std_cls_document, std_cls_page
    from erasable.data import load_dataset

    for path in out or []:
        require_file(path)
        require_form(path)
    loaded = load_dataset(data, resolution=resolution)
    found = run_std_cls(
        loaded,
        scale=scale,
        seeds=list(range(seeds)),
        runs=Runs(runs),
        say=say,
        verbose=not as_json,
    )
    pages = [path for path in out or [] if path.suffix == ".md"]
    others = [path for path in out or [] if path.suffix != ".md"]
    for path in others:
        std_cls_document(found, command()).write(path)
        say(f"Page: {path}")
    text = list(std_cls_page(found, command()))
    targets: list[Path | None] = [*pages] or [None]
    for target in targets:
        _show([vars(run) for run in found], text, target, as_json=as_json)


@tables_app.command("exact")
def exact(
    data: Data = "cifar10",
    encoder: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[:RESOLUTION]", help="A frozen encoder; can be repeated."),
    ] = None,
    shadows: Annotated[int, typer.Option(help="Models per world for attacks; 0: none.")] = 1000,
    shadow_reduction: Annotated[
        list[str] | None, typer.Option(help="prototypes (default) or gaussian; can be repeated.")
    ] = None,
    embedding_cache: Cache = None,
    runs: RunsFolder = Path("out/runs"),
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Accuracy, forget times, audits and attacks at level exact: nothing is trained on the rows.

    \b
    Examples:
      erasable tables exact --data cifar10 --encoder efficientnet_lite0:160 --out exact.md
      erasable tables exact --data digits --encoder random_features --shadows 50
    """
    from erasable.bench import ExactSettings, Runs, exact_page, run_exact
    from erasable.data import load_dataset

    require_file(out)
    cache = embedding_cache or _embeddings()
    wanted: dict[str, ExactSettings] = {}
    for word in encoder or ["efficientnet_lite0:160"]:
        name, options = _encoder(word)
        title = f"{name} at {options['resolution']} pixels" if options else name
        wanted[title] = ExactSettings(
            encoder=name,
            options=options,
            cache=cache,
            shadows=shadows,
            shadow_reductions=tuple(shadow_reduction or ["prototypes"]),
        )
    loaded = load_dataset(data)
    _tell_of_cache(cache)
    found: dict[str, Any] = {
        title: run_exact(loaded, settings, runs=Runs(runs), say=say, verbose=not as_json)
        for title, settings in wanted.items()
    }
    plain = {title: {k: vars(run) for k, run in by.items()} for title, by in found.items()}
    _show(plain, exact_page(found, command()), out, as_json=as_json)


@tables_app.command("share")
def share(
    data: Data = "cifar10",
    scale: Scale = "laptop",
    seeds: Seeds = 3,
    frozen: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:RESOLUTION]", help="Also with this encoder frozen, as a second curve."
        ),
    ] = None,
    embedding_cache: Cache = None,
    runs: RunsFolder = Path("out/runs"),
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Accuracy against the share of rows whose forgetting is exact.

    \b
    Examples:
      erasable tables share --data cifar10 --frozen efficientnet_lite0:160 --out share.md
      erasable tables share --data digits --preset tiny --seeds 1
    """
    from erasable.bench import Runs, run_share, share_page, share_png
    from erasable.data import load_dataset
    from erasable.files import write_atomically

    require_file(out)
    frozen_encoder = None if frozen is None else _encoder(frozen)
    loaded = load_dataset(data)
    numbers, kept = list(range(seeds)), Runs(runs)
    found = {
        f"The whole network is trained (preset {scale})": run_share(
            loaded, scale=scale, seeds=numbers, runs=kept, say=say, verbose=not as_json
        )
    }
    if frozen_encoder is not None:
        name, options = frozen_encoder
        _tell_of_cache(embedding_cache or _embeddings())
        parameters = {
            "encoder": name,
            "encoder_options": options,
            "embedding_cache": embedding_cache or _embeddings(),
        }
        found[f"{frozen}, frozen; only the comparison is trained"] = run_share(
            loaded, scale=scale, seeds=numbers, runs=kept, frozen=parameters, say=say
        )
    picture = None
    if out is not None:
        picture = out.with_suffix(".png")
        write_atomically(picture, share_png(found))
    page = share_page(found, command(), None if picture is None else picture.name)
    plain = {title: [vars(run) for run in some] for title, some in found.items()}
    _show(plain, page, out, as_json=as_json)


@tables_app.command("gap")
def gap(
    data: Data = "fashion-mnist",
    scale: Scale = "laptop",
    seeds: Seeds = 3,
    rows: Annotated[int, typer.Option(min=2, help="Rows to train on.")] = 20_000,
    runs: RunsFolder = Path("out/runs"),
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """What the gap between a semi-parametric model and its parametric twin depends on.

    Trained on some training rows and measured on others: test rows are never read.

    \b
    Examples:
      erasable tables gap --data fashion-mnist --out gap.md
      erasable tables gap --data digits --preset tiny --rows 600 --seeds 1
    """
    from erasable.bench import Runs, gap_page, run_gap
    from erasable.data import load_dataset

    require_file(out)
    found = run_gap(
        load_dataset(data),
        scale=scale,
        seeds=list(range(seeds)),
        rows=rows,
        runs=Runs(runs),
        say=say,
        verbose=not as_json,
    )
    plain = {name: [[vars(run) for run in pair] for pair in pairs] for name, pairs in found.items()}
    _show(plain, gap_page(found, command()), out, as_json=as_json)


def _show(document: Any, lines: Any, out: Path | None, *, as_json: bool) -> None:
    from erasable.files import write_atomically

    text = "\n".join(lines)
    if out is not None:
        write_atomically(out, text.encode() + b"\n")
    shown = text.split("\n") if out is None else [f"Page: {out}"]
    emit({"runs": document}, as_json=as_json, lines=shown)


def command() -> str:
    """Return the command line as it was typed."""
    import shlex

    return shlex.join(["erasable", *sys.argv[1:]])


def _tell_of_cache(cache: Path) -> None:
    say(
        f"Embeddings of the rows are kept in {cache}, also afterwards: delete it when you are done."
    )


def _embeddings() -> Path:
    """Return the default folder of embeddings, with the data sets."""
    from erasable.data import data_folder

    return data_folder() / "embeddings"


def _encoder(word: str) -> tuple[str, dict[str, int]]:
    """Return name and options of ``NAME`` or ``NAME:RESOLUTION``."""
    name, colon, pixels = word.partition(":")
    if colon and not pixels.isdecimal():
        raise ArgumentError(f"Expected a resolution in pixels after the colon, but got {word!r}.")
    return name, {"resolution": int(pixels)} if colon else {}
