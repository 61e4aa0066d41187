"""Where a dataset is from, on which terms, what is known not to hold, and how to make it again."""

import textwrap
from collections.abc import Mapping
from typing import Any, Final

from pipeline.dataset import manifest as mf
from pipeline.documents.card.header import licence_of
from pipeline.recipes.recipe import Recipe
from pipeline.recipes.toml import recipe_toml
from pipeline.scenarios import load_scenario
from pipeline.traces import FORMATS

_ELSEWHERE: Final = "elsewhere"  # provenance["recorded"] of decisions that are not simulated
_SIMULATED: Final = (
    (
        "Decisions were taken in a simulator, not in a production cluster: what the simulator "
        "leaves out, the data leave out."
    ),
    "Probabilities are those that the choices were drawn with, not estimates.",
    (
        "Rows of one episode depend on each other, and so do episodes of one window: split and "
        "resample by window."
    ),
)


def provenance(manifest: mf.Manifest) -> list[str]:
    """The workload: its files with SHA-256, what was counted, what was left out and why."""
    told = manifest.provenance
    form = FORMATS.get(str(told["format"]))
    if form is None:
        drawn = told["format"] == "generated"
        who = "the scenario" if drawn else f"the generator `{told['format']}` of Hindcast"
        lines = [f"The workload is drawn by {who}; no trace went in."]
    else:
        lines = [f"Format `{form.name}`: {form.description}.", f"Source: {form.source}."]
    lines.append("")
    lines += [f"- `{f['name']}`: sha256 `{f['sha256']}`" for f in told["files"]]
    counts: Mapping[str, Any] = told["counts"]
    lines += [f"- {name}: {count:,}" for name, count in counts.items()]
    lines += [f"- left out, {name}: {count:,}" for name, count in told["left_out"].items()]
    lines += [f"- {note}" for note in told["notes"]]
    return lines if lines[-1] else lines[:-1]


def terms(manifest: mf.Manifest) -> list[str]:
    """Licence, and what to cite."""
    form = FORMATS.get(str(manifest.provenance["format"]))
    licence, name = licence_of(manifest.provenance)
    if form is None:
        lines = [f"Licence: {name}, that of Hindcast, since nothing else went in."]
    else:
        lines = [f"Terms of the trace: {name}."]
        if licence == "other":
            lines.append("Hindcast claims no rights in it beyond them.")
    lines += ["", "Please cite:", ""]
    scenario = load_scenario(manifest.recipe.scenario)
    if scenario.source:
        lines.append(f"- the scenario: {scenario.source}")
    if form is not None:
        lines.append(f"- the trace: {form.citation}")
    return [*lines, f"- the dataset: Hindcast, `{manifest.recipe.id}`, recipe `{manifest.digest}`"]


def limits(manifest: mf.Manifest) -> list[str]:
    """What is known of the data that a reader could take for something else."""
    recorded = manifest.provenance.get("recorded") == _ELSEWHERE
    lines = [] if recorded else [f"- {text}" for text in _SIMULATED]
    cut, episodes = manifest.counts["truncated_episodes"], manifest.counts["episodes"]
    if cut:
        lines.append(
            f"- {cut:,} of {episodes:,} episodes were cut off before their end; what was left "
            "undone is counted in the outcomes."
        )
    if not manifest.spec.valued and manifest.spec.discount == 1.0:
        lines.append("- The objective is meant undiscounted: returns are sums over whole episodes.")
    differences = load_scenario(manifest.recipe.scenario).differences
    if differences:
        lines += ["", "Differences of the scenario from its paper:", ""]
        lines += [f"- {text}" for text in differences]
    return lines


def rebuild(manifest: mf.Manifest) -> list[str]:
    """The recipe, the versions and the command."""
    versions = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
    recorded = manifest.provenance.get("recorded") == _ELSEWHERE
    command = (
        f"hindcast ingest history {manifest.recipe.trace.path} --out {manifest.recipe.id}"
        if recorded
        else "hindcast build recipe.toml --out DIR"
    )
    said = (
        "Save this as `recipe.toml`" if not recorded else "With the file named below `[trace]`"
    ) + (
        f" and run `{command}` with these versions: {versions}. The same bytes come out for any "
        "number of workers; `hindcast verify DIR` recomputes every claim made here, and `hindcast "
        "diff` says what differs between two builds."
    )
    lines = [
        *textwrap.wrap(said, 98, break_on_hyphens=False, break_long_words=False),
        "",
        *_toml(manifest.recipe),
    ]
    for segment in manifest.appended:
        lines += [
            "",
            f"Then, with `--append`, for the episodes from {segment.first_episode:,} on:",
            "",
            *_toml(segment.recipe),
        ]
    return lines


def _toml(recipe: Recipe) -> list[str]:
    return ["```toml", *recipe_toml(recipe).rstrip("\n").split("\n"), "```"]
