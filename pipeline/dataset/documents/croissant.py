"""Metadata of Croissant 1.1 for the Parquet files of a dataset, as JSON-LD."""

import re
from collections.abc import Mapping
from typing import Any, Final

import polars as pl
import pyarrow as pa

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.columns import episodes_schema, part_schema
from hindcast.pipeline.dataset.documents.terms import terms
from hindcast.pipeline.recipes.workload_source import ELSEWHERE
from hindcast.pipeline.simulation.spec import Feature, Spec
from hindcast.pipeline.traces import FORMATS

NAME: Final = "croissant.json"
_PARQUET: Final = "application/x-parquet"
_PARTS: Final = "parts"

# Names of the vocabulary that are used here or that readers of the format expect.
_NAMES: Final = (
    "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field",
    "fileProperty", "fileObject", "fileSet", "format", "includes", "isArray", "isLiveDataset",
    "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex", "repeated",
    "replace", "samplingRate", "separator", "source", "subField", "transform",
)  # fmt: skip


_CONTEXT: Final[Mapping[str, Any]] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    **{name: f"cr:{name}" for name in _NAMES},
}


_TYPES: Final[Mapping[str, str]] = {  # data types by the name of the Arrow type
    "int64": "cr:Int64", "int32": "cr:Int32", "uint8": "cr:UInt8", "float": "cr:Float32",
    "double": "cr:Float64", "bool": "sc:Boolean", "string": "sc:Text", "large_string": "sc:Text",
}  # fmt: skip


_MEANING: Final[Mapping[str, str]] = {
    "episode": "number of the episode",
    "step": "number of the decision inside its episode; one more in the closing row",
    "time_s": "simulated seconds since the start of the episode",
    "context": "features of the situation in which the decision is taken",
    "image": "pixels of the image, row by row",
    "candidates": "features of each candidate",
    "feasible": "which candidates may be chosen",
    "choice": "index of the chosen candidate; null in an episode's closing row",
    "propensity": "probability with which the behaviour chose the candidate",
    "behaviour_probabilities": "probability of every candidate under the behaviour",
    "monte_carlo_value": "value of the decision, computed at the end of the episode",
    "reward": "reward of the decision under the objective of the recipe",
    "reward_terms": "quantities booked at this step, by name",
    "elapsed_s": "simulated seconds from this decision to the next",
    "terminated": "whether the episode ended with this decision",
    "truncated": "whether the episode was cut off",
    "split": "train, validation or test; by window of the workload",
    "behaviour": "name of the policy that took the decisions",
    "seed": "repetition of the behaviour on the window",
    "window": "problem instance; the same for every behaviour",
    "steps": "number of decisions",
    "return": "undiscounted sum of rewards",
    "behaviour_parameters": "parameters that the behaviour drew for this episode",
    "first_part": "number of the part in which the episode begins",
    "last_part": "number of the part in which the episode ends",
}


_NO_CLOSING_ROW: Final = " An episode of one decision that ended with it has no closing row."


def croissant(manifest: mf.Manifest) -> dict[str, Any]:
    """Return the metadata of a dataset, which depends on the manifest alone."""
    recipe, spec, of = manifest.recipe, manifest.spec, terms(manifest)
    table = pl.DataFrame(schema=episodes_schema(spec)).to_arrow().schema
    told = {o.name: f"{o.description} ({o.unit})" for o in spec.outcomes}
    return {
        "@context": dict(_CONTEXT),
        "@type": "sc:Dataset",
        "name": manifest.name,
        "description": recipe.description or f"Logged decisions of the scenario {spec.scenario}.",
        "conformsTo": ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"],
        "license": of.licence,
        "citeAs": of.citation,
        "url": of.url,
        "version": _version(manifest),
        "identifier": manifest.digest,
        "creator": {"@type": "sc:Organization", "name": "Hindcast"},
        "keywords": ["offline reinforcement learning", "scheduling", spec.scenario],
        **_responsible(manifest),
        "distribution": [
            *(_file(entry) for entry in (*manifest.parts, manifest.episodes)),
            {
                "@type": "cr:FileSet",
                "@id": _PARTS,
                "name": _PARTS,
                "description": "all parts, in order",
                "encodingFormat": _PARQUET,
                "includes": [part.path for part in manifest.parts],
            },
        ],
        "recordSet": [
            _record_set(
                "episodes", "One row per episode.", ["episode"],
                [_field("episodes", column, {"fileObject": {"@id": manifest.episodes.path}}, told)
                 for column in table],
            ),
            _record_set(
                "decisions",
                "One row per decision, and a closing row per episode with its last observation. "
                "The next observation of a row is the observation of the row after it."
                + ("" if spec.closing_rows else _NO_CLOSING_ROW),
                ["episode", "step"],
                [_field("decisions", column, {"fileSet": {"@id": _PARTS}}, _told(spec))
                 for column in part_schema(spec)],
            ),
        ],
    }  # fmt: skip


def _responsible(manifest: mf.Manifest) -> dict[str, Any]:
    """Return the fields of Croissant RAI 1.0 that the manifest can answer, without empty ones."""
    origin, counts, spec = manifest.provenance, manifest.counts, manifest.spec
    recorded = origin.get("recorded") == ELSEWHERE
    traced = str(origin["format"]) in FORMATS
    of = f"{counts['decisions']:,} decisions in {counts['episodes']:,} episodes"
    if recorded:
        collection = f"{of}, recorded by a service in operation and read from its log."
        limits = ["The decisions were not simulated again: what the log says cannot be checked."]
    else:
        jobs = f"jobs of a trace in the format {origin['format']}" if traced else "random jobs"
        collection = (
            f"{of}, taken by scheduling policies in a simulator of {spec.scenario}: {jobs}."
        )
        limits = [
            "Returns and outcomes are those of a simulator, no measurements of a real system.",
            "Results hold for this workload, this objective and these settings.",
        ]
    numbers = [f.name for f in (*spec.context, *spec.candidates) if f.identifier]
    private = "No person or machine is named in the decisions."
    if recorded:
        private = "Ids of decisions, sessions and candidates, and all features, are as in the log."
    elif numbers:
        private = f"No names; numbers stand for machines or jobs in {', '.join(numbers)}."
    told = {
        "dataCollection": collection,
        "dataCollectionType": ["Software Collection"],
        "dataCollectionMissingData": [
            f"{name}: {count:,}" for name, count in origin["left_out"].items()
        ],
        "dataPreprocessingProtocol": list(origin["notes"]),
        "dataLimitations": [*limits, *(caveat.text for caveat in manifest.caveats)],
        "dataUseCases": ["offline reinforcement learning", "off-policy evaluation"],
        "personalSensitiveInformation": [private],
    }
    return {f"rai:{name}": value for name, value in told.items() if value}


def _version(manifest: mf.Manifest) -> str:
    """Return MAJOR.MINOR.PATCH from the "-v2" at the end of the id, and the digest as its build."""
    found = re.search(r"-v(\d+)(\+|$)", manifest.name)
    return f"{int(found[1]) if found else 1}.0.0+{manifest.digest[:12]}"


def _file(entry: mf.FileEntry) -> dict[str, Any]:
    """Return a file of the dataset as a FileObject."""
    return {
        "@type": "cr:FileObject",
        "@id": entry.path,
        "name": entry.path,
        "contentUrl": entry.path,
        "contentSize": f"{entry.bytes} B",
        "encodingFormat": _PARQUET,
        "sha256": entry.sha256,
    }


def _record_set(
    name: str, description: str, key: list[str], fields: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return a table as a RecordSet; `key` are the columns that tell its rows apart."""
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": description,
        "key": [{"@id": f"{name}/{column}"} for column in key],
        "field": fields,
    }


def _told(spec: Spec) -> dict[str, str]:
    """Return the meanings of sub-fields, by column and name."""
    told = {"image": f"{_MEANING['image']}; its shape is {list(spec.image_shape)}"}
    listed: dict[str, tuple[Feature, ...]] = {
        "context": spec.context, "candidates": spec.candidates,
    }  # fmt: skip
    for column, features in listed.items():
        told |= {f"{column}/{f.name}": f"{f.description} ({f.unit})" for f in features}
    return told


def _field(
    record_set: str, column: pa.Field, source: Mapping[str, Any], told: Mapping[str, str]
) -> dict[str, Any]:
    """Return a column as a field; structs have sub-fields, lists are arrays."""
    name, kind = column.name, column.type
    field: dict[str, Any] = {
        "@type": "cr:Field",
        "@id": f"{record_set}/{name}",
        "name": name,
        "description": told.get(name, _MEANING.get(name, name)),
    }
    listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if listed or pa.types.is_fixed_size_list(kind):
        field |= {"isArray": True, "arrayShape": str(-1 if listed else kind.list_size)}
        kind = kind.value_type
    if not pa.types.is_struct(kind):
        of_column = {**source, "extract": {"column": name}}
        return {**field, "dataType": _TYPES[str(kind)], "source": of_column}
    field["subField"] = [
        {
            "@type": "cr:Field",
            "@id": f"{record_set}/{name}/{child.name}",
            "name": child.name,
            "description": told.get(f"{name}/{child.name}", child.name),
            "dataType": _TYPES[str(child.type)],
            "source": {
                **source,
                "extract": {"column": name},
                "transform": {"jsonPath": child.name},
            },
        }
        for child in kind
    ]
    return field
