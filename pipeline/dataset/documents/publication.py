"""Documents that a published dataset has beside its own: datasheet, metadata of an archive.

    .zenodo.json   the metadata that Zenodo asks for, in its names
    DATASHEET.md   questions of Gebru et al. (Datasheets for Datasets, CACM 2021) with the answers
                   that the manifest of the dataset has
    SHA256SUMS     a line per file, for `sha256sum -c SHA256SUMS`

Their content is that of the Croissant metadata. `verify` accepts them, and does not compare them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.dataset.documents.croissant import croissant
from hindcast.pipeline.dataset.documents.terms import AUTHORS, address_of, licence_of
from hindcast.pipeline.dataset.manifest import CARD, Manifest
from hindcast.pipeline.pages.templates import render
from hindcast.pipeline.recipes.workload_source import GENERATED, SYNTHETIC
from hindcast.pipeline.traces import FORMATS

ZENODO: Final = ".zenodo.json"
DATASHEET: Final = "DATASHEET.md"
SUMS: Final = "SHA256SUMS"
OF_THE_HUB: Final = frozenset({".gitattributes", ".cache"})  # beside what its client downloads
_ADDED: Final = frozenset({ZENODO, DATASHEET, SUMS, *OF_THE_HUB})
_TEMPLATE: Final = Path(__file__).with_name("datasheet.md.jinja")


def added(folder: Path) -> list[str]:
    """Return the names in a dataset's folder that its publication or its download added."""
    return sorted(path.name for path in folder.iterdir() if path.name in _ADDED)


def restrictions(manifest: Manifest) -> list[str]:
    """Return the terms, in words, that are no licence under which everybody may hand data on."""
    source = str(manifest.provenance["format"])
    identifier, words = licence_of(manifest.provenance)
    found = []
    if source not in FORMATS and source not in {SYNTHETIC, GENERATED}:
        found.append(f"the terms of {source!r} are not known here")
    elif identifier == "other":
        found.append(f"the terms of the trace ({source}): {words}")
    if getattr(manifest.recipe.config, "series", SYNTHETIC) != SYNTHETIC:
        found.append(f"the terms of the hours of the grid: {FORMATS['series'].terms}")
    return found


def datasheet(manifest: Manifest, permission: str) -> str:
    """Return the datasheet as Markdown; `permission` is the publisher's own statement, or ""."""
    about = croissant(manifest)
    return render(
        _TEMPLATE,
        manifest=manifest,
        about=about,
        rai={key.removeprefix("rai:"): about[key] for key in about if key.startswith("rai:")},
        address=address_of(manifest.provenance),
        restrictions=restrictions(manifest),
        permission=permission,
        card=CARD,
    )


def creators_of(named: Sequence[str]) -> list[str]:
    """Return the creators of a publication: those that are named, or who made the software."""
    return list(named) or [AUTHORS]


def zenodo(manifest: Manifest, creators: Sequence[str], permission: str) -> Mapping[str, Any]:
    """Return the metadata of an archive.

    A licence that the archive does not know is left out, and its words stand in the notes, with
    `permission`, the publisher's own statement, or "".
    """
    about = croissant(manifest)
    identifier, words = licence_of(manifest.provenance)
    limits = [f"{text.rstrip('.')}." for text in about["rai:dataLimitations"]]
    notes = [f"Terms: {text}." for text in restrictions(manifest)] or [f"Licence: {words}."]
    notes += [permission] if permission else []
    return {
        "title": f"{manifest.name}: {about['description'].rstrip('.')}",
        "upload_type": "dataset",
        "creators": [{"name": name} for name in creators_of(creators)],
        "description": " ".join([about["rai:dataCollection"], *limits]),
        "version": about["version"],
        **({} if restrictions(manifest) else {"license": identifier}),
        "keywords": about["keywords"],
        "notes": " ".join(notes),
        "references": [about["citeAs"]],
    }
