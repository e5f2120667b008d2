"""A table of figures, and the forms it is shown in: text, Markdown, CSV, LaTeX."""

import csv
import io
import math
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table
from rich.text import Text

from erasable.terminal import printable, printable_lines


@dataclass(frozen=True)
class Figure:
    """One quantity over seeds and scenarios.

    Attributes:
        values: What was measured, once per seed and scenario.
        floor: The same quantity between two oracles, if it is a gap.
        scale: What values are multiplied by where a person reads them: 100 for percent.
        digits: Digits after the point there.
        beside: Values that stand in brackets behind a gap, such as UA behind ΔUA.
    """

    values: Sequence[float]
    floor: float | None = None
    scale: float = 1.0
    digits: int = 2
    beside: Sequence[float] = ()

    @property
    def mean(self) -> float:
        """Mean of the values; NaN without any."""
        return statistics.fmean(self.values) if self.values else math.nan

    @property
    def spread(self) -> float | None:
        """Standard deviation; None for a single value, or where one is infinite."""
        has_one = len(self.values) > 1 and all(map(math.isfinite, self.values))
        return statistics.stdev(self.values) if has_one else None

    @property
    def multiple(self) -> float | None:
        """Mean as a multiple of the floor; None without one."""
        return None if not self.floor or not self.values else self.mean / self.floor

    def text(self) -> str:
        """Return mean ± spread, the value in brackets, and the multiple of the floor."""
        if math.isnan(self.mean):
            return "–"
        text = self._number(self.mean)
        if self.spread is not None:
            text += f" ± {self._number(self.spread)}"
        if self.beside:
            text += f" ({self._number(statistics.fmean(self.beside))})"
        if self.multiple is not None:
            text += f", {self.multiple:.1f} × floor"
        return text

    def _number(self, value: float) -> str:
        if math.isinf(value):
            return "∞"
        return f"{self.scale * value:.{self.digits}f}"


Entry = str | Figure


@dataclass(frozen=True)
class Sheet:
    """Rows of words and figures under one header.

    Attributes:
        title: What it is.
        header: One word per column.
        rows: Entries, as many as the header has.
        notes: Paragraphs below.
    """

    title: str
    header: list[str]
    rows: list[list[Entry]]
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> Iterator[str]:
        """Yield the lines of a Markdown table with its notes."""
        yield f"## {self.title}\n"
        yield "| " + " | ".join(map(_piped, self.header)) + " |"
        yield "|---|" + "---:|" * (len(self.header) - 1)
        for row in self.rows:
            yield "| " + " | ".join(_piped(_text(entry)) for entry in row) + " |"
        yield ""
        for note in self.notes:
            yield f"{note}\n"

    def csv(self) -> str:
        """Return one line per figure, unrounded, in the unit of its column."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        names = ["table", self.header[0], "figure", "mean", "spread", "count", "floor", "beside"]
        writer.writerow(names)
        for row in self.rows:
            for column, entry in zip(self.header[1:], row[1:], strict=True):
                if isinstance(entry, Figure):
                    words = map(_in_csv, (self.title, _text(row[0]), column))
                    writer.writerow([*words, *_measured(entry)])
        return stream.getvalue()

    def latex(self) -> str:
        """Return a ``tabular`` environment with booktabs rules, and the notes below."""
        lines = [r"\begin{tabular}{l" + "r" * (len(self.header) - 1) + "}", r"\toprule"]
        lines.append(" & ".join(map(_tex, self.header)) + r" \\")
        lines.append(r"\midrule")
        lines += [" & ".join(_tex(_text(entry)) for entry in row) + r" \\" for row in self.rows]
        notes = [rf"\par {_tex(note)}" for note in self.notes]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *notes, ""])

    def texts(self) -> list[list[str]]:
        """Return the rows as a person reads them."""
        return [[_text(entry) for entry in row] for row in self.rows]

    def show(self, console: Console) -> None:
        """Print the table to a terminal."""
        table = Table(title=_shown(self.title), title_justify="left")
        for place, word in enumerate(self.header):
            table.add_column(_shown(word), justify="right" if place else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*(_shown(_text(entry)) for entry in row))
        console.print(table)
        for note in self.notes:
            console.print(printable_lines(note), markup=False)


def _measured(figure: Figure) -> list[float | str]:
    """Return mean, spread, number of values, floor and value beside, in the figure's unit."""
    beside = statistics.fmean(figure.beside) if figure.beside else None
    mean, spread, floor, value = (
        "" if one is None else figure.scale * one
        for one in (figure.mean, figure.spread, figure.floor, beside)
    )
    return [mean, spread, len(figure.values), floor, value]


def _text(entry: Entry) -> str:
    return entry if isinstance(entry, str) else entry.text()


def _shown(text: str) -> Text:
    return Text(printable(text))


def in_markdown(text: str) -> str:
    """Return text from outside so that Markdown makes neither HTML nor a link of it."""
    return re.sub(r"<(?=[A-Za-z/!?])|(?<=\])\(", r"\\\g<0>", printable_lines(text))


def _piped(text: str) -> str:
    return in_markdown(text).replace("\n", " ").replace("|", "\\|")


def _in_csv(text: str) -> str:
    """Return text that no spreadsheet takes for a formula, as OWASP advises."""
    text = printable(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


_TEX = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "±": r"$\pm$", "×": r"$\times$"}
_TEX |= {
    "Δ": r"$\Delta$",
    "–": "--",
    "$": r"\$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "√": r"$\surd$",
    "γ": r"$\gamma$",
    "·": r"$\cdot$",
    "α": r"$\alpha$",
    "∞": r"$\infty$",
    "\\": r"\textbackslash{}",
}


def _tex(text: str) -> str:
    return "".join(_TEX.get(letter, letter) for letter in text)
