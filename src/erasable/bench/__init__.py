"""Scenarios, oracles, tables and reports."""

from erasable.bench._compare import Answers, Comparison, Gaps
from erasable.bench._demo import DemoResult, run_demo
from erasable.bench._document import FORMS, Document, require_form
from erasable.bench._exact import ExactSettings, run_exact
from erasable.bench._exact_shadows import ExactShadows
from erasable.bench._figures import pyplot, share_png, teaser_figure
from erasable.bench._forecast import say_left, seconds_left
from erasable.bench._gap import Gap, collect_gaps, run_gap
from erasable.bench._harness import Cell, Harness
from erasable.bench._machine import machine
from erasable.bench._packs import OutsideAnswers, Pack, load_answers, load_pack, make_pack, score
from erasable.bench._pages import exact_page, gap_page, share_page, std_cls_page
from erasable.bench._report import write_report
from erasable.bench._runs import Run, Runs
from erasable.bench._scenarios import Scenario, class_scenario, group_scenario, random_scenario
from erasable.bench._sequence import (
    default_sequence,
    run_sequence,
    sequence_document,
    tuning_of,
)
from erasable.bench._shadow_sets import Margins, ShadowMaker, ShadowSets
from erasable.bench._shadows import Progress, ShadowMargins, ShadowRecord, shadow_margins
from erasable.bench._share import run_share
from erasable.bench._sheet import Sheet
from erasable.bench._std_cls import collect, run_std_cls
from erasable.bench._std_cls_document import std_cls_document
from erasable.bench._table import render_table
from erasable.bench._teaser import run_teaser
from erasable.bench._tradeoff import run_tradeoff, tradeoff_document
from erasable.bench._tune import trials_left, tune
from erasable.bench._unlearning import (
    DELETIONS,
    EDITS,
    EVERY_DELETION,
    Compared,
    Group,
    class_groups,
    graph_note,
    imagenet_groups,
    random_groups,
    run_unlearning,
    suitable,
    unlearning_document,
)
from erasable.bench._votes_page import votes_page

__all__ = [
    "DELETIONS",
    "EDITS",
    "EVERY_DELETION",
    "FORMS",
    "Answers",
    "Cell",
    "Compared",
    "Comparison",
    "DemoResult",
    "Document",
    "ExactSettings",
    "ExactShadows",
    "Gap",
    "Gaps",
    "Group",
    "Harness",
    "Margins",
    "OutsideAnswers",
    "Pack",
    "Progress",
    "Run",
    "Runs",
    "Scenario",
    "ShadowMaker",
    "ShadowMargins",
    "ShadowRecord",
    "ShadowSets",
    "Sheet",
    "class_groups",
    "class_scenario",
    "collect",
    "collect_gaps",
    "default_sequence",
    "exact_page",
    "gap_page",
    "graph_note",
    "group_scenario",
    "imagenet_groups",
    "load_answers",
    "load_pack",
    "machine",
    "make_pack",
    "pyplot",
    "random_groups",
    "random_scenario",
    "render_table",
    "require_form",
    "run_demo",
    "run_exact",
    "run_gap",
    "run_sequence",
    "run_share",
    "run_std_cls",
    "run_teaser",
    "run_tradeoff",
    "run_unlearning",
    "say_left",
    "score",
    "seconds_left",
    "sequence_document",
    "shadow_margins",
    "share_page",
    "share_png",
    "std_cls_document",
    "std_cls_page",
    "suitable",
    "teaser_figure",
    "tradeoff_document",
    "trials_left",
    "tune",
    "tuning_of",
    "unlearning_document",
    "votes_page",
    "write_report",
]
