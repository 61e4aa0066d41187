"""README's picture: a window under two policies, `python -m docs.pictures.schedules`.

It prints the sentence that stands below the picture, whose numbers are those of the two schedules.
"""

import sys
from pathlib import Path
from typing import Final

import numpy as np

from hindcast.flows.papers.folder import light_colors
from hindcast.pipeline.evaluation.evaluate import make_job
from hindcast.pipeline.pages.numbers import count_of, three_digits
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.report import svg
from hindcast.pipeline.report.schedule_plots import boxes_of, gantt_plot
from hindcast.pipeline.report.view.packing import rectangles
from hindcast.pipeline.report.view.strips import whole
from hindcast.pipeline.schedules.schedule import Schedule
from hindcast.pipeline.schedules.windows import schedule_window
from hindcast.policies.entrants import entrants

OUT: Final = Path(__file__).resolve().parent.parent / "_static" / "schedules.svg"
_RECIPE: Final = "queue-lublin1-v1"
_POLICIES: Final = ("fcfs_easy", "saf_easy")
_WINDOW: Final = 47


def schedules() -> list[Schedule]:
    """Return the window under both policies."""
    recipe = load_recipe(_RECIPE)
    job = make_job(recipe, "test", Path())
    return [schedule_window(job, of.behaviour, _WINDOW) for of in entrants(recipe, _POLICIES)]


def picture(pair: list[Schedule]) -> str:
    """Return the picture as the text of a file."""
    end = max(schedule.facts["to_s"] for schedule in pair)
    stretch = whole(pair[0])._replace(to_s=end)
    boxes = [boxes_of(schedule, rectangles(schedule), stretch.from_s, end) for schedule in pair]
    assert not any(of.hidden or of.too_many for of in boxes)
    return svg.standalone(gantt_plot(pair, boxes, stretch, "README"), light_colors())


def sentence(pair: list[Schedule]) -> str:
    """Return what the picture shows."""
    waits = [schedule.jobs["wait_s"].drop_nulls().to_numpy() / 3600 for schedule in pair]
    mean, longest = ([three_digits(of(wait)) for wait in waits] for of in (np.mean, np.max))
    return (
        f"The same {count_of(len(waits[0]), 'job')} under two rules: with the least area first "
        f"(`saf_easy`) instead of the order of arrival (`fcfs_easy`), the mean wait is {mean[1]} h "
        f"instead of {mean[0]} h, and the longest {longest[1]} h instead of {longest[0]} h. "
        "The log has no requested times, so that both rules know run times."
    )


if __name__ == "__main__":
    drawn = schedules()
    OUT.write_text(picture(drawn), encoding="utf-8")
    sys.stdout.write(sentence(drawn) + "\n")
