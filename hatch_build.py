"""Build hook of Hatchling: two single files become files of the package `hindcast`.

`sources` in pyproject.toml maps folders alone, and `force-include` there would copy the files into
editable installations too, where the checkout is the package.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILES = {"hindcast.py": "hindcast/__init__.py", "py.typed": "hindcast/py.typed"}


class SingleFiles(BuildHookInterface[Any]):
    """The hook that adds the two files to a wheel, but not to an editable one."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files to what the wheel includes."""
        if version != "editable":
            build_data["force_include"] |= FILES
