"""Arrays that grow in an HDF5 file."""

from typing import Any

from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.storage.versions import pip_install


def load_h5py() -> Any:
    """Return the library; InputError with the name of the extra if it is not installed."""
    try:
        import h5py
    except ImportError as error:
        raise InputError(
            f"this format needs h5py, which is not installed: {pip_install('export')}"
        ) from error
    return h5py


def append(group: Any, name: str, values: NDArray[Any], **filters: Any) -> None:
    """Append rows (R, ...) to an array of the group; the array is created if it does not exist.

    A name with "/" is an array of a group inside the group.
    """
    if name not in group:
        group.create_dataset(
            name, data=values, chunks=True, maxshape=(None, *values.shape[1:]), **filters
        )
        return
    array = group[name]
    before = array.shape[0]
    array.resize(before + len(values), axis=0)
    array[before:] = values
