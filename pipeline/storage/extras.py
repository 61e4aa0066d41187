"""Optional packages and file locks, and the errors for an installation without them."""

import importlib.util
from collections.abc import Mapping
from typing import Final

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.storage.versions import DISTRIBUTION

UNSUPPORTED: Final = (
    "Hindcast runs on Linux and macOS; this Python has no module fcntl, which locks files there"
)
# Module -> extra of pyproject.toml. The core runs without any of them.
EXTRAS: Final[Mapping[str, str]] = {
    "torch": "train",
    "d3rlpy": "train",
    "gymnasium": "gymnasium",
    "prefect": "flows",
    "fastapi": "flows",
    "h5py": "export",
    "s3fs": "s3",
    "gcsfs": "gs",
    "adlfs": "az",
    "prefect_dask": "dask",
    "distributed": "dask",
    "dask": "dask",
    "prefect_ray": "ray",
    "ray": "ray",
    "tensorboard": "tensorboard",
    "highspy": "bounds",
    "huggingface_hub": "hub",
}


def installed(module: str) -> bool:
    """Return whether a module can be imported; it is not loaded."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # of an import hook, or of a module that is None
        return False


def pip_install(extra: str) -> str:
    """Return the commands that install an extra: of an installed Hindcast, and in a checkout."""
    return (
        f"install the extra {extra}: pip install '{DISTRIBUTION}[{extra}]', "
        f"or in a checkout pip install -c constraints.txt -e '.[{extra}]'"
    )


def missing(module: str, what: str) -> InputError:
    """Return the error for `what` that needs this module, which is not installed."""
    package = module.replace("_", "-")
    return InputError(
        f"{what} needs {package}, which is not installed; {pip_install(EXTRAS[module])}"
    )


def require(what: str, *modules: str) -> None:
    """Raise InputError if one of the modules that `what` needs is not installed."""
    for module in modules:
        if not installed(module):
            raise missing(module, what)
