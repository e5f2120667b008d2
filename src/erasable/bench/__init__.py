"""Scenarios, oracles, tables and reports."""

from erasable.bench._compare import Answers, Comparison, Gaps
from erasable.bench._demo import DemoResult, run_demo
from erasable.bench._machine import machine
from erasable.bench._report import write_report
from erasable.bench._scenarios import Scenario, class_scenario, group_scenario, random_scenario
from erasable.bench._table import render_table
from erasable.bench._teaser import run_teaser
from erasable.bench._votes_page import votes_page

__all__ = [
    "Answers",
    "Comparison",
    "DemoResult",
    "Gaps",
    "Scenario",
    "class_scenario",
    "group_scenario",
    "machine",
    "random_scenario",
    "render_table",
    "run_demo",
    "run_teaser",
    "votes_page",
    "write_report",
]
