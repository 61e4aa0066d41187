"""Origin of a dataset: workload, terms, known limits, and how to build it again."""

import textwrap
from collections.abc import Mapping
from typing import Any, Final

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.documents.card.header import licence_of
from hindcast.pipeline.errors import printable
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.toml import recipe_toml
from hindcast.pipeline.recipes.workload_source import ELSEWHERE
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.traces import FORMATS

_SIMULATED: Final = (
    (
        "Decisions were taken in a simulator, not in a production cluster. Do not read returns or "
        "outcomes as measurements of a real system: effects that the simulator leaves out are "
        "missing in the data."
    ),
    (
        "Do not rank scheduling rules in general by this log: results hold for this workload, this "
        "objective and these settings."
    ),
    "Probabilities are those from which the choices were drawn; they are not estimates.",
    (
        "Rows of one episode depend on each other, and so do episodes of one window. Split and "
        "resample by window, not by row."
    ),
)


def provenance(manifest: mf.Manifest) -> list[str]:
    """Return the workload: files with SHA-256, counts, and data left out with the reason."""
    told = manifest.provenance
    lines = [f"{workload(manifest)}.", ""]
    lines += [f"- `{printable(f['name'])}`: sha256 `{f['sha256']}`" for f in told["files"]]
    counts: Mapping[str, Any] = told["counts"]
    lines += [f"- {name}: {count:,}" for name, count in counts.items()]
    lines += [f"- left out, {name}: {count:,}" for name, count in told["left_out"].items()]
    lines += [f"- {printable(note)}" for note in told["notes"]]
    return lines if lines[-1] else lines[:-1]


def workload(manifest: mf.Manifest) -> str:
    """Return the origin of the workload: a trace and its source, or a generator."""
    kind = str(manifest.provenance["format"])
    form = FORMATS.get(kind)
    if form is not None:
        return f"Trace in the format `{form.name}`: {form.description}. Source: {form.source}"
    who = "the scenario" if kind == "generated" else f"the generator `{kind}` of Hindcast"
    return f"Random jobs, drawn by {who}; the dataset contains no data of a real trace"


def terms(manifest: mf.Manifest) -> list[str]:
    """Return the licence and the works to cite."""
    form = FORMATS.get(str(manifest.provenance["format"]))
    licence, name = licence_of(manifest.provenance)
    if form is None:
        lines = [f"Licence: {name}, the licence of Hindcast; the dataset has no other source."]
    else:
        lines = [f"Terms of the trace: {name}."]
        if licence == "other":
            lines.append("Hindcast claims no further rights.")
    lines += ["", "Please cite:", ""]
    scenario = load_scenario(manifest.recipe.scenario)
    if scenario.source:
        lines.append(f"- the scenario: {scenario.source}")
    if form is not None:
        lines.append(f"- the trace: {form.citation}")
    return [*lines, f"- the dataset: Hindcast, `{manifest.name}`, recipe `{manifest.digest}`"]


def limits(manifest: mf.Manifest) -> list[str]:
    """Return limits of the data that a reader could overlook."""
    recorded = manifest.provenance.get("recorded") == ELSEWHERE
    lines = [] if recorded else [f"- {text}" for text in _SIMULATED]
    cut, episodes = manifest.counts["truncated_episodes"], manifest.counts["episodes"]
    if cut:
        lines.append(
            f"- {cut:,} of {episodes:,} episodes were cut off before their end; their unfinished "
            "work is counted in the outcomes."
        )
    if not manifest.spec.valued and manifest.spec.discount == 1.0:
        lines.append("- The objective is undiscounted: returns are sums over whole episodes.")
    differences = load_scenario(manifest.recipe.scenario).differences
    if differences:
        lines += ["", "Differences of the scenario from the paper that it follows:", ""]
        lines += [f"- {text}" for text in differences]
    return lines


def rebuild(manifest: mf.Manifest) -> list[str]:
    """Return the recipe, the versions and the command that build the dataset again."""
    versions = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
    recorded = manifest.provenance.get("recorded") == ELSEWHERE
    command = (
        f"hindcast ingest history {manifest.recipe.trace.path} --out {manifest.recipe.id}"
        if recorded
        else "hindcast build recipe.toml --out DIR"
    )
    said = (
        "Save this as `recipe.toml`" if not recorded else "With the file named below `[trace]`"
    ) + (
        f" and run `{command}` with these versions: {versions}. Any number of workers gives the "
        "same bytes. `hindcast verify DIR` recomputes every claim of this card, and `hindcast "
        "diff` lists the differences between two builds."
    )
    lines = [
        *textwrap.wrap(said, 98, break_on_hyphens=False, break_long_words=False),
        "",
        *_toml(manifest.recipe),
    ]
    for segment in manifest.appended:
        lines += [
            "",
            f"Then add the episodes from {segment.first_episode:,} with `--append` and:",
            "",
            *_toml(segment.recipe),
        ]
    return lines


def _toml(recipe: Recipe) -> list[str]:
    return ["```toml", *recipe_toml(recipe).rstrip("\n").split("\n"), "```"]
