"""Versions of this package and of others, as recorded in datasets and checkpoints."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

DISTRIBUTION: Final = "hindcast-scheduling"  # on package indexes, `hindcast` is another project
_CHECKOUT: Final = Path(__file__).resolve().parents[2] / "pyproject.toml"


@cache
def version() -> str:
    """Return the version of the running code: of its checkout, else of the installed package."""
    project = _project()
    if project is not None:
        return str(project["version"])
    return package_versions([DISTRIBUTION]).get(DISTRIBUTION, "unknown")


def checkout() -> Path | None:
    """Return the folder of the checkout that the code runs from; None if it was installed."""
    return None if _project() is None else _CHECKOUT.parent


def _project() -> dict[str, Any] | None:
    import tomllib

    if _CHECKOUT.is_file():
        project = tomllib.loads(_CHECKOUT.read_text(encoding="utf-8")).get("project", {})
        if str(project.get("name", "")).startswith("hindcast"):
            return dict(project)
    return None


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of those of these packages that are installed."""
    from importlib import metadata  # which loads the standard library's mail parser

    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
