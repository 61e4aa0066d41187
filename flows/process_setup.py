"""Set-up of the process: open streams, checks of the system, file names and memory, kernels.

Libraries written in C and Rust fail badly without these checks: they loop forever, or write other
files than Python does. So the command line makes them before it loads the libraries.
"""

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Final

from hindcast.pipeline.errors import InputError

_PORTABLE: Final = "HINDCAST_PORTABLE"
_LEAST_ADDRESSES: Final = 3 << 29  # bytes (1.5 GiB) that loading the libraries takes, threads too


def open_streams() -> None:
    """Open stdin, stdout and stderr where they are closed; output to them is discarded.

    Otherwise the next file that is opened would take their place, and receive the output.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)  # noqa: FBT003
    os.close(number)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr: ASCII shows all text


def check_names(words: Sequence[str]) -> None:
    """Raise InputError if files would get other names from Python than from libraries.

    Libraries write names in UTF-8 whatever the locale says.
    """
    names = [*words, os.environ.get("HINDCAST_TRACES", "")]
    with contextlib.suppress(OSError):  # a current folder that was deleted
        names.append(os.getcwd())  # noqa: PTH109
    for word in names:
        if not word.isascii() and sys.getfilesystemencoding() != "utf-8":
            raise InputError(
                f"{word}: this locale encodes names of files as {sys.getfilesystemencoding()}, "
                "expected utf-8; set PYTHONUTF8=1, or a locale such as LC_ALL=C.UTF-8"
            )
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"{word}: this is not valid UTF-8; rename the file or folder"
            ) from error


def choose_kernels() -> None:
    """Set the variables of portable kernels if HINDCAST_PORTABLE is 1, before torch reads them.

    Raises InputError for another value, and if torch is loaded already with other kernels.
    """
    setting = os.environ.get(_PORTABLE, "0")
    if setting not in {"0", "1"}:
        raise InputError(f"{_PORTABLE} is {setting!r}, expected 0 or 1")
    if setting == "0":
        return
    from hindcast.pipeline.storage.provenance import PORTABLE, chosen_kernels

    if "torch" in sys.modules and chosen_kernels() != PORTABLE:
        variables = " ".join(f"{name}={value}" for name, value in PORTABLE.items())
        raise InputError(
            f"{_PORTABLE} is 1, but torch is loaded already; set {variables} before Python starts"
        )
    os.environ.update(PORTABLE)


def check_memory() -> None:
    """Raise InputError if the process may not address the memory that loading libraries takes."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < _LEAST_ADDRESSES:
        raise InputError(
            f"the address space is limited to {limit // 1024:,} KiB, expected at least "
            f"{_LEAST_ADDRESSES // 1024:,}; raise the limit with `ulimit -v`"
        )
