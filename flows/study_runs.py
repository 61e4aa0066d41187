"""The points of a data-quality study, each a run of its own, and the table of what they came to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows.progress import note
from flows.stages import Call, directly, run_stages
from pipeline.storage.files import make_folder, write_atomically, write_json, write_text
from pipeline.storage.location import location


def run_study(
    recipe: str,
    out: Path | str,
    agents: Sequence[str],
    vary: str,
    values: Sequence[str] = (),
    seeds: Sequence[int] = (0,),
    steps: int | None = None,
    overrides: Sequence[str] = (),
    workers: int = 1,
    command: str = "",
    call: Call = directly,
) -> dict[str, Any]:
    """Run every point through `call`, those that are finished not again; then the tables.

    Raises RecipeError for a study that is not valid, DatasetError where `out` holds another.
    """
    from pipeline.recipes.loading import load_recipe
    from pipeline.studies.page import study_csv, study_markdown
    from pipeline.studies.study import NAME, TABLE, collect, plan

    place, loaded = location(out), load_recipe(recipe, overrides)
    points = plan(recipe, overrides, agents, seeds, steps, vary, values)
    for number, point in enumerate(points, start=1):
        note(f"point {number} of {len(points)}: {point.name}")
        run_stages(recipe, place / point.name, point.overrides, workers, command, call)
    table = collect(place, vary, points, loaded, command)
    make_folder(place)
    write_atomically(place / TABLE, table.write_parquet)
    content = study_csv(table)
    write_atomically(place / "data_quality.csv", lambda path: path.write_bytes(content))
    write_text(place / "data_quality.md", study_markdown(content, "data_quality.csv"))
    listed = [{"name": p.name, "value": p.value} for p in points]
    write_json(place / NAME, {"kind": "study", "recipe": loaded.id, "vary": vary, "points": listed})
    return {
        "study": str(place / TABLE),
        "points": len(points),
        "page": str(place / "data_quality.md"),
    }
