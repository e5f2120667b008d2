"""The demo's result as one HTML file that needs nothing beside it."""

from pathlib import Path

from erasable._version import __version__
from erasable.bench._demo import DemoResult
from erasable.bench._figures import data_url, gallery_figure, gaps_figure, teaser_figure
from erasable.bench._markdown import render_markdown
from erasable.bench._table import HEADER, cells, times
from erasable.errors import MissingExtraError
from erasable.files import write_atomically


def write_report(result: DemoResult, folder: Path) -> Path:
    """Write ``report.html``, and beside it ``demo.md`` and ``teaser.png``; return its path."""
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError(
            "The report needs jinja2: pip install 'erasable[bench]'."
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("erasable.bench"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    teaser = teaser_figure(result.teaser)
    page = environment.get_template("report.html.j2").render(
        result=result,
        version=__version__,
        header=HEADER,
        cells=cells,
        times=times,
        teaser=data_url(teaser),
        teaser_figures=result.teaser.figures(),
        gaps=data_url(gaps_figure(result)),
        gallery=data_url(gallery_figure(result.gallery)),
    )
    write_atomically(folder / "teaser.png", teaser)
    write_atomically(folder / "demo.md", "\n".join(render_markdown(result)).encode() + b"\n")
    write_atomically(folder / "report.html", page.encode())
    return folder / "report.html"
