"""``erasable bench``."""

from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._common import AsJson, EncoderOption, emit, require_file, say
from erasable.cli._tables import Data, RunsFolder, Scale, Smoothing
from erasable.cli._unlearning import open_harness

bench_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="""Tune methods, and compare answers of any method with oracles.

\b
Examples:
  erasable bench tune salun --data fashion-mnist --rule class:Trouser
  erasable bench pack --data fashion-mnist --rule class:Bag --out bag.npz
  erasable bench score predictions.npz --pack bag.npz
""",
)

_RULES = "What is forgotten: class:LABEL, classes:LABEL,LABEL, random:10%, group:NAME, ids:FILE"
Rule = Annotated[str, typer.Option(help=f"{_RULES}.")]
Kind = Annotated[str, typer.Option(help="parametric, knn, spm or sisa.")]


@bench_app.command("tune")
def tune(
    method: Annotated[str, typer.Argument(help="Name of a method.")],
    data: Data = "cifar10",
    rule: Annotated[str | None, typer.Option(help=f"{_RULES}; default: the last class.")] = None,
    kind: Kind = "parametric",
    scale: Scale = "laptop",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the original.")] = 0,
    label_smoothing: Smoothing = 0.0,
    encoder_option: EncoderOption = None,
    runs: RunsFolder = Path("out/runs"),
    as_json: AsJson = False,
) -> None:
    """Try a method's grid, and beyond its ends; show the smallest mean gap to the oracle.

    \b
    Examples:
      erasable bench tune ga --data digits --preset tiny --rule class:9
    """
    from erasable.bench import say_left, seconds_left, trials_left, tuning_of
    from erasable.bench import tune as search

    harness = open_harness(
        data,
        scale=scale,
        label_smoothing=label_smoothing,
        encoder_option=encoder_option,
        runs=runs,
        is_quiet=as_json,
    )
    rule = tuning_of(harness.classes, "")[0] if rule is None else rule
    trials, _ = trials_left(harness, method, rule=rule, kind=kind, seed=seed)
    say_left(seconds_left(harness, trials, []), say)
    found = search(harness, method, rule=rule, kind=kind, seed=seed, say=say)
    lines = [f"{method} on {rule}: {found['chosen'] or 'nothing to tune'}"]
    lines.append(f"mean of ΔUA, ΔRA and ΔTA: {100 * found['mean_gap']:.2f} points")
    emit(found, as_json=as_json, lines=lines)


@bench_app.command("pack")
def pack(
    out: Annotated[Path, typer.Option(help="File to write.")],
    rule: Rule,
    data: Data = "cifar10",
    kind: Kind = "parametric",
    scale: Scale = "laptop",
    seeds: Annotated[
        int, typer.Option(min=1, help="Number of oracles; two for 1, as in a table of one seed.")
    ] = 3,
    label_smoothing: Smoothing = 0.0,
    encoder_option: EncoderOption = None,
    runs: RunsFolder = Path("out/runs"),
    as_json: AsJson = False,
) -> None:
    """Write what oracles say of the test rows into one small file.

    \b
    Examples:
      erasable bench pack --data digits --preset tiny --rule class:3 --out class-3.npz
    """
    from erasable.bench import make_pack

    require_file(out)
    harness = open_harness(
        data,
        scale=scale,
        label_smoothing=label_smoothing,
        encoder_option=encoder_option,
        runs=runs,
        is_quiet=as_json,
    )
    made = make_pack(harness, kind, rule, list(range(seeds)), say=say)
    made.save(out)
    size = out.stat().st_size
    lines = [f"{out}: {len(made.oracles)} oracles without {rule}, {size / 1000:.0f} kB"]
    emit({"record": made.record, "bytes": size}, as_json=as_json, lines=lines)


@bench_app.command("score")
def score(
    predictions: Annotated[
        list[Path],
        typer.Argument(
            help="One or more .npz files: probabilities (rows, classes), classes, and if you like "
            "ids."
        ),
    ],
    against: Annotated[Path, typer.Option("--pack", help="An oracle pack.")],
    as_json: AsJson = False,
) -> None:
    """Rank the answers of any methods by PG_H to the oracles of a pack; divergences stand beside.

    \b
    Examples:
      erasable bench score predictions.npz --pack class-3.npz
      erasable bench score mine.npz theirs.npz --pack class-3.npz --json
    """
    from erasable.bench import load_answers, load_pack
    from erasable.bench import score as compare

    packed = load_pack(against)
    found = {str(path): compare(packed, load_answers(path)) for path in predictions}
    ranked = sorted(found.items(), key=lambda item: item[1].prediction_gap)
    floor = ranked[0][1].floor
    between = "" if floor is None else f"; PG_H between them {100 * floor:.2f} %"
    lines = [
        f"{packed.record['data']} without {packed.record['rule']}: {len(packed.oracles)} "
        f"{packed.record['kind']} oracles of preset {packed.record['preset']}, label smoothing "
        f"{packed.record['label_smoothing']:g}{between}"
    ]
    for place, (name, one) in enumerate(ranked, 1):
        multiple = f", {one.prediction_gap / floor:.1f} × floor" if floor else ""
        lines.append(
            f"{place}. {name}: PG_H {100 * one.prediction_gap:.2f} %{multiple}, KL(unlearned, "
            f"oracle) {one.kl_unlearned_oracle:.4f}, KL(oracle, unlearned) "
            f"{one.kl_oracle_unlearned:.4f}"
        )
    ranking = [{"predictions": name, **vars(one)} for name, one in ranked]
    emit({"ranking": ranking, "record": packed.record}, as_json=as_json, lines=lines)
