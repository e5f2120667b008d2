"""Words that the pages of generation share."""

from collections.abc import Iterable

from erasable.bench._runs import Run
from erasable.bench.generation._drawings import SAMPLER, Drawings

TITLES = {
    "ddpm": "DDPM",
    "gmm": "GMM",
    "spm": "SPM",
    "spm_permuted": "SPM, label embedding, permuted",
    "spm_plain": "SPM, label embedding, not permuted",
    "spm_follow": "SPM, rows at the query's time step",
    "spm_support": "SPM, separate support of 256",
    "spm_detached": "SPM, no gradient through rows",
    "ft": "training on, without the class",
    "sa": "Selective Amnesia",
    "salun": "SalUn",
    "sfron": "SFR-on",
    "erasediff": "EraseDiff",
}


def row_title(kind: str, what: str) -> str:
    """Return a row's name as a person reads it."""
    words = {
        "retrain": "retrained without the class (oracle)",
        "untouched": "nothing done",
        "deletion": "deletion",
    }
    return f"{TITLES[kind]}: {words.get(what) or TITLES[what]}"


_LEVELS = (
    "Level `memory` for SPM: its weights were trained on every class, what is deleted are the rows "
    "that it draws from. Edits of the ordinary model have no level: how much they forget is what "
    "is measured."
)


def introduction(features: str, levels: str = _LEVELS) -> str:
    """Say which level of forgetting holds, and what distances are measured by.

    Args:
        features: Name of the features.
        levels: What is said of levels; default: that of a class that the weights were trained on.
    """
    own = (
        ""
        if features == "inception"
        else "These features are a classifier's of this data, not Inception's: figures cannot be "
        "compared with published ones. "
    )
    return (
        f"{levels} FID[{features}] is the Fréchet distance of the features named in "
        f"brackets. {own}It also depends on how many images are drawn; as many real ones of each "
        "class stand against them."
    )


def judge_note(
    drawings: Drawings,
    runs: Iterable[Run],
    *,
    oracles: str = "; oracles draw from noise of their own",
) -> str:
    """Say who judges, how good it is, and how images are drawn.

    Args:
        drawings: What made the samples.
        runs: What was judged.
        oracles: What is said of the noise of oracles.
    """
    judges = {run.result["judged_by"] for run in runs if "judged_by" in run.result}
    several = (
        f" It was trained anew on other machines, so {len(judges)} of them judged here."
        if len(judges) > 1
        else ""
    )
    accuracy = drawings.generators.judge_run().result["accuracy"]
    return (
        "The judge is a classifier that was trained on the real training images; it is right on "
        f"{100 * accuracy:.2f} % of the test images.{several} {drawings.per_class} images of each "
        f"class are drawn, by {drawings.steps} steps of DDIM with guidance {SAMPLER['guidance']} "
        f"(a mixture just draws), from the same noise by every model{oracles}. All networks draw "
        "with the running mean of their weights; an edit starts from it, and its own steps make a "
        "new one by the same rule."
    )
