"""Section of a report about the datasets that agents were trained on."""

from collections.abc import Sequence
from pathlib import Path

from hindcast.pipeline.dataset.manifest import read_manifest
from hindcast.pipeline.inspection.columns import size
from hindcast.pipeline.recipes.recipe import BehaviourRecipe
from hindcast.pipeline.report.html import Markup, definitions, element, joined
from hindcast.pipeline.report.setting import caveats_box
from hindcast.pipeline.workloads.caveats import of_provenance
from hindcast.pipeline.workloads.schema import read_provenance


def dataset_part(folders: Sequence[Path]) -> Markup:
    """Return facts from the manifests of dataset folders.

    Raises DatasetError for a manifest that is missing or damaged.
    """
    return joined(map(_dataset, folders))


def _dataset(folder: Path) -> Markup:
    manifest = read_manifest(folder)
    behaviours = (_behaviour(b) for recipe in manifest.recipes for b in recipe.behaviours)
    left_out = manifest.provenance["left_out"]
    pairs = [
        ("decisions", f"{manifest.counts['decisions']:,}"),
        ("episodes", f"{manifest.counts['episodes']:,}"),
        ("size", size(sum(part.bytes for part in manifest.parts))),
        ("behaviours", ", ".join(dict.fromkeys(behaviours))),
        ("recipe", manifest.name),
        ("recipe digest", element("code", manifest.digest)),
        (
            "left out of the trace",
            ", ".join(f"{reason}: {count}" for reason, count in left_out.items()),
        ),
    ]
    caveats = manifest.caveats or of_provenance(read_provenance(manifest.provenance))
    parts = [element("h3", manifest.name), *caveats_box(caveats), definitions(pairs, "facts")]
    return joined(parts)


def _behaviour(behaviour: BehaviourRecipe) -> str:
    settings = {"epsilon": behaviour.epsilon, "temperature": behaviour.temperature}
    details = ", ".join(f"{name} {value:g}" for name, value in settings.items() if value)
    return f"{behaviour.policy} ({details})" if details else behaviour.policy
