"""Stages of `hindcast whatif`.

OUT/recipe.toml, before.toml, run.toml    the windows and runs, see pipeline.report.whatif.plan
OUT/agents/evolution-seed0                an agent of --train, with its delivered/ and best/
OUT/plays, OUT/jobs                       starts of all jobs, see flows.runs.plays
OUT/whatif.html                           the page
OUT/whatif.json, whatif.csv, groups.csv   its numbers, written before the page
OUT/run.json                              the ledger of finished stages, which are skipped
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.flows.commands import Call, directly, train_online
from hindcast.flows.commands.ingest import no_settings
from hindcast.flows.progress import note, progress
from hindcast.flows.runs import plays
from hindcast.flows.runs.ledger import Ledger
from hindcast.flows.runs.plays import RECORDED, Machine, Part, Policy, Scope
from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.evaluation.evaluate import make_job
from hindcast.pipeline.recipes.loading import apply_override, load_recipe
from hindcast.pipeline.recipes.recipe import Recipe, TraceSource
from hindcast.pipeline.recipes.recognition import recognise
from hindcast.pipeline.recipes.settings import read_settings
from hindcast.pipeline.recipes.workload_source import INGESTED, load_source
from hindcast.pipeline.report.whatif import plan as planning
from hindcast.pipeline.report.whatif.jobs import counted_jobs
from hindcast.pipeline.report.whatif.material import Material, Replayed
from hindcast.pipeline.report.whatif.numbers import UNITS
from hindcast.pipeline.report.whatif.numbers import Scope as Values
from hindcast.pipeline.report.whatif.numbers import Shaken as Spread
from hindcast.pipeline.report.whatif.page import write_page
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.storage.files import make_folder, sha256_file, write_text
from hindcast.pipeline.storage.location import location
from hindcast.pipeline.storage.locks import writing
from hindcast.pipeline.storage.run_files import BEST, DELIVERED, DESCRIPTION
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.whatif import pools as pooling
from hindcast.pipeline.whatif.grade import Grade, grade
from hindcast.pipeline.whatif.mine import Mine, read_mine
from hindcast.pipeline.whatif.record import Array, Record, read_record
from hindcast.pipeline.whatif.replay import distance
from hindcast.pipeline.whatif.run import joined
from hindcast.pipeline.whatif.shakes import shaken
from hindcast.pipeline.whatif.worlds import World, changed, compare, read_change
from hindcast.pipeline.workloads.log_caveats import DISQUALIFYING, log_caveats, missing_fields
from hindcast.pipeline.workloads.schema import Workload
from hindcast.policies.entrants import entrants

_FORMATS: Final = ("swf", "slurm", "pbs", "table")
_WINDOWS, _BEFORE, _RUN = "windows", "before", "run"
_RECIPES: Final = {
    _WINDOWS: planning.RECIPE, _BEFORE: planning.BEFORE, _RUN: planning.RUN,
}  # scope -> recipe
_DRAWS: Final = 20  # of --shake
# Rule that plans the slots of all waiting jobs at every moment, and the number of jobs in a run up
# to which it is played without being asked for.
_PLANNING, _PLANNED_JOBS = "conservative", 100_000
