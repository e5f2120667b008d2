"""Tables with pictures and their origin, in every form: Markdown, CSV, LaTeX, HTML."""

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from erasable.bench._figures import data_url
from erasable.bench._machine import machines
from erasable.bench._runs import Run
from erasable.bench._sheet import Sheet, in_markdown
from erasable.errors import ArgumentError, MissingExtraError, listing
from erasable.files import write_atomically
from erasable.terminal import in_page, printable_lines

FORMS = ("md", "csv", "tex", "html")
"""Endings of files that a document can be written to."""


@dataclass(frozen=True)
class Picture:
    """A picture of some of the figures.

    Attributes:
        name: Short name, part of the file's.
        caption: What it shows.
        draw: Draws it, as PNG.
    """

    name: str
    caption: str
    draw: Callable[[], bytes]


@dataclass(frozen=True)
class Document:
    """What one command of the benchmark found.

    Attributes:
        title: Its title.
        introduction: What is compared, and at which level of forgetting.
        sheets: The tables.
        facts: Where the figures come from: command, data, seeds, machine.
        pictures: Pictures of the tables.
    """

    title: str
    introduction: str
    sheets: Sequence[Sheet]
    facts: Sequence[str]
    pictures: Sequence[Picture] = field(default=())

    def show(self, console: Console) -> None:
        """Print the tables to a terminal."""
        for sheet in self.sheets:
            sheet.show(console)
        for fact in self.facts:
            console.print(printable_lines(fact), style="dim", highlight=False, markup=False)

    def write(self, path: Path) -> None:
        """Write to a file, in the form that its name ends in; Markdown has its pictures beside."""
        require_form(path)
        form = path.suffix[1:]
        if form == "md":
            for picture in self.pictures:
                write_atomically(self._beside(path, picture), picture.draw())
        text = {"md": self._markdown, "csv": self._csv, "tex": self._latex, "html": self._html}
        write_atomically(path, text[form](path).encode())

    def _beside(self, path: Path, picture: Picture) -> Path:
        return path.with_name(f"{path.stem}-{picture.name}.png")

    def _markdown(self, path: Path) -> str:
        lines = [f"# {self.title}\n", f"{self.introduction}\n"]
        lines += ["\n".join(sheet.markdown()) for sheet in self.sheets]
        for picture in self.pictures:
            lines.append(f"![{picture.caption}]({self._beside(path, picture).name})\n")
        lines += ["## How it was run\n", *(f"- {in_markdown(fact)}" for fact in self.facts), ""]
        return "\n".join(lines)

    def _csv(self, path: Path) -> str:
        header = self.sheets[0].csv().splitlines()[0]
        lines = [line for sheet in self.sheets for line in sheet.csv().splitlines()[1:]]
        return "\n".join([header, *lines, ""])

    def _latex(self, path: Path) -> str:
        comments = [f"% {line}" for fact in self.facts for line in fact.splitlines()]
        return "\n".join([*comments, *(f"% {s.title}\n{s.latex()}" for s in self.sheets)])

    def _html(self, path: Path) -> str:
        from jinja2 import Environment, PackageLoader

        loader = PackageLoader("erasable.bench")
        environment = Environment(
            loader=loader, autoescape=True, trim_blocks=True, finalize=in_page
        )
        pictures = [(picture.caption, data_url(picture.draw())) for picture in self.pictures]
        page = environment.get_template("document.html.j2")
        return page.render(document=self, pictures=pictures)


def require_form(path: Path) -> None:
    """Refuse a file whose name does not end in a known form, or whose form needs an extra."""
    if path.suffix.removeprefix(".") not in FORMS:
        raise ArgumentError(
            f"Expected a file that ends in {listing(FORMS)}, but got {path.name!r}."
        )
    needed = {"md": ("matplotlib",), "html": ("matplotlib", "jinja2")}.get(path.suffix[1:], ())
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"Writing {path.name} needs {', '.join(missing)}: pip install 'erasable[bench]'."
        )


def origin(runs: Sequence[Run], command: str) -> list[str]:
    """Return where the figures of some runs come from.

    Args:
        runs: The runs, each once.
        command: The command that made the document.
    """
    data: dict[str, Any] = runs[0].settings["data"]
    seeds = sorted({run.settings["seed"] for run in runs if run.settings["seed"] is not None})
    return [
        f"Command: {command}",
        f"Data: {data['name']}; digests of training and test rows "
        f"{data['train_contents'][:16]} and {data['test_contents'][:16]}",
        f"Preset: {runs[0].settings['preset']}{_parameters(runs[0].settings)}",
        f"Seeds: {', '.join(map(str, seeds))}",
        *(f"Machine: {name}" for name in machines(run.machine for run in runs)),
        f"Wall time: {sum(run.seconds for run in runs) / 60:.0f} minutes",
    ]


def _parameters(settings: dict[str, Any]) -> str:
    """Say how labels were smoothed, and what the encoder is, where a run knows."""
    found = settings.get("parameters", {})
    words = []
    if found.get("label_smoothing") is not None:
        words.append(f"; label smoothing {found['label_smoothing']:g}")
    if found.get("encoder") is not None:
        options = found.get("encoder_options") or {}
        words.append(f"; encoder {found['encoder']}")
        words += [f", {name} {value}" for name, value in sorted(options.items())]
    if found.get("precision") is not None:
        words.append(f"; trained in {found['precision']}")
    return "".join(words)
