"""The picture of requests in sequence: how far models are from retraining, request by request."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from erasable.bench._figures import as_png, pyplot


def sequence_png(
    requests: Sequence[str],
    lines: Sequence[tuple[str, dict[str, Any], list[list[float]]]],
) -> bytes:
    """Draw gaps in percent after each request.

    Args:
        requests: The requests, in order.
        lines: Name, style, and per request a gap per seed; none where a method diverged before.
    """
    figure, axis = pyplot().subplots(figsize=(6.2, 3.9), layout="constrained")
    places = range(len(requests))
    for name, style, steps in lines:
        means = [statistics.fmean(some) if some else math.nan for some in steps]
        axis.plot(places, means, label=name, linewidth=1, markersize=4, **style)
    axis.set_xticks(places, [f"{number}: {name}" for number, name in enumerate(requests, 1)])
    axis.set_xlabel("after request")
    axis.set_ylabel("PG_H, %")
    axis.set_ylim(bottom=0)
    axis.margins(x=0.1)
    axis.legend(fontsize=7, frameon=False)
    return as_png(figure)
