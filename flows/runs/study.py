"""The points of a data-quality study, each a run of its own, and the table that compares them."""

from typing import Any

from flows.commands import Call, directly, run
from flows.progress import note
from flows.runs.stages import run_stages
from pipeline.storage.files import make_folder, write_atomically, write_json, write_text
from pipeline.storage.location import location


def run_study(request: Any, call: Call = directly) -> dict[str, Any]:
    """Run the points of a request of `hindcast study` through `call`, then write the tables.

    Points that are finished are not run again. Raises RecipeError for a study that is not valid,
    DatasetError where `out` holds another.
    """
    from pipeline.recipes.loading import load_recipe
    from pipeline.studies.page import study_csv, study_markdown
    from pipeline.studies.study import NAME, TABLE, collect

    place, loaded = location(request.out), load_recipe(request.recipe, request.overrides)
    points = request.points()
    for number, point in enumerate(points, start=1):
        note(f"point {number} of {len(points)}: {point.name}")
        stages = run.Request(
            request.recipe, str(place / point.name), tuple(point.overrides), request.workers,
            request.command,
        )  # fmt: skip
        run_stages(stages, call)
    table = collect(place, request.vary, points, loaded, request.command)
    make_folder(place)
    write_atomically(place / TABLE, table.write_parquet)
    content = study_csv(table)
    write_atomically(place / "data_quality.csv", lambda path: path.write_bytes(content))
    write_text(place / "data_quality.md", study_markdown(content, "data_quality.csv"))
    listed = [{"name": p.name, "value": p.value} for p in points]
    about = {"kind": "study", "recipe": loaded.id, "vary": request.vary, "points": listed}
    write_json(place / NAME, about)
    return {
        "study": str(place / TABLE),
        "points": len(points),
        "page": str(place / "data_quality.md"),
    }
