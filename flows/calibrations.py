"""Registry of the tables of `hindcast calibrate`: numbers of papers, from simulators and agents."""

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from hindcast.pipeline.plugins import Registry


@dataclass(frozen=True)
class Calibration:
    """A table of `hindcast calibrate`.

    Attributes:
        table: Function of the table, as `module:function`; its module is imported on use. Given the
            request of the command, it returns `lines` for people and `rows`.
        description: What the table shows, for the help.
        reads: Options that the table reads.
        folders: Names of the folders that it is made from, for the help.
        needs: The option that must be given; "" for none.
    """

    table: str
    description: str
    reads: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    needs: str = ""

    def implementation(self) -> Callable[[Any], dict[str, Any]]:
        """Return the function of the table, after loading its module."""
        found: Callable[[Any], dict[str, Any]] = pkgutil.resolve_name(self.table)
        return found


CALIBRATIONS: Final = Registry[Calibration]("calibrations", {})
