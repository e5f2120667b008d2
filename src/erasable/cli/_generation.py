"""The tables and figures of generation as commands."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasable.cli._common import AsJson, emit, require_file, say
from erasable.cli._tables import Data, Outs, RunsFolder, Scale, command

if TYPE_CHECKING:
    from erasable.bench import Document
    from erasable.bench.generation import Generators

GenerationSeeds = Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds: 0, 1, …")]
Forgotten = Annotated[
    list[str] | None,
    typer.Option(
        "--class", metavar="CLASS", help="A class to forget; can be repeated; default: every other."
    ),
]


def std_ddpm(
    data: Data = "mnist",
    scale: Scale = "laptop",
    seeds: GenerationSeeds = 1,
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
    generators = _generators(data, scale, runs, out, is_quiet=as_json)
    from erasable.bench.generation import run_standard, standard_document

    found = run_standard(generators, seeds=list(range(seeds)))
    every = [vars(run) for some in found.values() for run in some]
    _show(standard_document(generators, found, command()), out, every, as_json=as_json)


def ddpm(
    data: Data = "mnist",
    scale: Scale = "laptop",
    seeds: GenerationSeeds = 1,
    classes: Forgotten = None,
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
    _forgetting(
        "Forgetting a class in generation",
        ("sa", "salun", "sfron"),
        ("spm",),
        (data, scale, seeds, classes, runs, out),
        as_json=as_json,
    )


def label_perm(
    data: Data = "mnist",
    scale: Scale = "laptop",
    seeds: GenerationSeeds = 1,
    classes: Forgotten = None,
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
    _forgetting(
        "Label embeddings and deletion",
        (),
        ("spm", "spm_permuted", "spm_plain"),
        (data, scale, seeds, classes, runs, out),
        as_json=as_json,
    )


def erasediff(
    data: Data = "mnist",
    scale: Scale = "laptop",
    seeds: GenerationSeeds = 1,
    classes: Forgotten = None,
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
    _forgetting(
        "Forgetting a class in generation, against EraseDiff",
        ("erasediff",),
        ("spm",),
        (data, scale, seeds, classes, runs, out),
        as_json=as_json,
    )


def _forgetting(
    title: str,
    methods: tuple[str, ...],
    kinds: tuple[str, ...],
    arguments: tuple[str, str, int, list[str] | None, Path, list[Path] | None],
    *,
    as_json: bool,
) -> None:
    data, scale, seeds, classes, runs, out = arguments
    generators = _generators(data, scale, runs, out, is_quiet=as_json)
    from erasable.bench.generation import forgetting_document, run_forgetting

    made = run_forgetting(
        generators,
        _labels(generators, classes),
        seeds=list(range(seeds)),
        methods=methods,
        kinds=kinds,
        say=say,
    )
    every = [vars(run) for row in made.runs.values() for some in row.values() for run in some]
    document = forgetting_document(generators, made, f"{title}: {generators.data.name}", command())
    _show(document, out, every, as_json=as_json)


def _labels(generators: "Generators", words: list[str] | None) -> list[Any]:
    """Return the classes to forget: those named, or every other one as the paper does."""
    from erasable.errors import ArgumentError, listing

    if words is None:
        return generators.classes[1::2]
    known = {str(label): label for label in generators.classes}
    unknown = [word for word in words if word not in known]
    if unknown:
        raise ArgumentError(f"Expected classes among {listing(known)}, but got {listing(unknown)}.")
    return [known[word] for word in words]


def _generators(
    data: str, scale: str, runs: Path, out: list[Path] | None, *, is_quiet: bool
) -> "Generators":
    from erasable.bench import Runs, require_form
    from erasable.data import load_dataset
    from erasable.models import require_diffusion

    require_diffusion()
    from erasable.bench.generation import Generators

    for path in out or []:
        require_file(path)
        require_form(path)
    return Generators(
        load_dataset(data), scale=scale, runs=Runs(runs), say=say, verbose=not is_quiet
    )


def _show(document: "Document", out: list[Path] | None, runs: list[Any], *, as_json: bool) -> None:
    from rich.console import Console

    for path in out or []:
        document.write(path)
    if as_json:
        emit({"runs": runs, "facts": list(document.facts)}, as_json=True, lines=[])
        return
    document.show(Console())
    for path in out or []:
        print(f"Page: {path}")
