"""Table std_cls as a document: for the forms besides its page."""

from erasable.bench._document import Document, Picture, origin
from erasable.bench._figures import as_png, pyplot
from erasable.bench._pages import PAPER, paper_column, std_cls_notes
from erasable.bench._runs import Run
from erasable.bench._sheet import Entry, Figure, Sheet
from erasable.bench._std_cls import FRACTIONS, Cell, collect


def std_cls_document(runs: list[Run], command: str) -> Document:
    """Return the table with the paper's figures beside, and a picture of accuracy against time.

    Args:
        runs: One run per seed.
        command: The command that made them.
    """
    data = runs[0].settings["data"]
    cells = collect(runs)
    column = paper_column(data)
    header = ["model", *(f"{fraction:.0%} of the rows" for fraction in FRACTIONS), "time / twin"]
    if column is not None:
        header += [f"paper: {fraction:.0%}" for fraction in FRACTIONS]
    rows = []
    for name in dict.fromkeys(cell.model for cell in cells):
        found = {cell.fraction: cell for cell in cells if cell.model == name}
        rows.append([name, *_figures(found), *_paper(name, column)])
    sheet = Sheet(f"std_cls on {data['name']}", header, rows, std_cls_notes(cells, runs))
    introduction = (
        "Test accuracy in percent, mean ± standard deviation over the seeds, by share of each "
        "class in the memory; time to predict the test rows over the parametric twin's. Level of "
        "forgetting: `memory`, for the weights were trained on all rows."
    )
    picture = Picture(
        "time",
        "Test accuracy with all rows against the time to predict, over the parametric twin's.",
        lambda: _accuracy_against_time(cells),
    )
    facts = origin(runs, command)
    return Document(f"std_cls on {data['name']}", introduction, [sheet], facts, [picture])


def _figures(found: dict[float | None, Cell]) -> list[Entry]:
    last = found[None] if None in found else found[FRACTIONS[-1]]
    shares: list[Entry] = [
        Figure(found[fraction].accuracies, scale=100) if fraction in found else ""
        for fraction in FRACTIONS[:-1]
    ]
    return [*shares, Figure(last.accuracies, scale=100), Figure(last.ratios)]


def _paper(name: str, column: int | None) -> list[Entry]:
    if column is None:
        return []
    return [*PAPER[name][column][:3]] if name in PAPER else ["", "", ""]


def _accuracy_against_time(cells: list[Cell]) -> bytes:
    figure, axis = pyplot().subplots(figsize=(7, 4), layout="constrained")
    for cell in cells:
        if cell.fraction in (None, FRACTIONS[-1]):
            time = Figure(cell.ratios).mean
            axis.plot(time, 100 * cell.mean, "o", markersize=7)
            axis.annotate(
                cell.model,
                (time, 100 * cell.mean),
                xytext=(6, 4),
                textcoords="offset points",
                fontsize=8,
            )
    axis.set_xscale("log")
    axis.set(xlabel="time to predict the test rows / twin's", ylabel="test accuracy, %")
    axis.grid(alpha=0.3)
    axis.margins(x=0.25, y=0.12)
    axis.spines[["top", "right"]].set_visible(False)
    return as_png(figure)
