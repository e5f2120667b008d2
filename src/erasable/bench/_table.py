"""The demo's result as text."""

from collections.abc import Iterator

from erasable.bench._demo import DemoResult, Line

HEADER = ("model", "level", "PG_H %", "KL(u|o)", "KL(o|u)", "ΔUA (UA)", "ΔRA (RA)", "ΔTA (TA)")


def cells(line: Line) -> list[str]:
    """Return a line's cells: mean gap over the oracles, [floor], (own value)."""

    def percent(name: str) -> str:
        floor = "" if line.floor is None else f" [{100 * getattr(line.floor, name):.2f}]"
        return f"{100 * line.mean(name):.2f}{floor}"

    def nats(name: str) -> str:
        floor = "" if line.floor is None else f" [{getattr(line.floor, name):.3f}]"
        return f"{line.mean(name):.3f}{floor}"

    def accuracy(name: str) -> str:
        return f"{percent('delta_' + name)} ({100 * line.mean(name):.1f})"

    return [
        line.model,
        line.level,
        percent("prediction_gap"),
        nats("kl_unlearned_oracle"),
        nats("kl_oracle_unlearned"),
        *(accuracy(name) for name in ("ua", "ra", "ta")),
    ]


def times(line: Line) -> str:
    """Tell how long forgetting took, beside retraining."""
    if line.seconds is None or line.seconds_reencoding is None:
        return f"retraining {line.retrain_seconds:.2f} s"
    return (
        f"forget {1000 * line.seconds:.1f} ms, with re-encoding {line.seconds_reencoding:.2f} s, "
        f"{'rebuilding' if line.floor is None else 'retraining'} {line.retrain_seconds:.2f} s"
    )


def render_table(result: DemoResult) -> Iterator[str]:
    """Yield the lines of the table for a terminal."""
    rows = [HEADER, *(tuple(cells(line)) for line in result.lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    yield "mean gap to two retrained oracles [gap between those two oracles] (own value)"
    for number, line in enumerate(result.lines):
        if number % 3 == 0:
            yield ""
            forgotten = result.counts["forget"][line.scenario]
            yield f"forget {line.scenario}: {forgotten} of {result.counts['train']} rows"
            yield "  " + "  ".join(t.ljust(w) for t, w in zip(HEADER, widths, strict=True))
        yield "  " + "  ".join(t.ljust(w) for t, w in zip(cells(line), widths, strict=True))
        yield f"      {times(line)}"
    yield ""
    for proof in result.proofs:
        word = "byte for byte equal" if proof.states_equal else "DIFFERENT"
        yield (
            f"exact, {proof.scenario}: state after forgetting and state never holding the rows are "
            f"{word}; largest difference of a probability {proof.largest_difference:.1e} "
            "(rounding: the rows lie in another order)"
        )
    yield (
        "Level memory: the rows no longer vote, but the weights were trained on them and still "
        "carry what they learnt."
    )
