"""Configuration of Sphinx; `make docs` builds the pages, without network, warnings are errors."""

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from docs.generate import pages_of, write_pages  # noqa: E402 - found by the line above
from hindcast.pipeline.storage.versions import version as _version  # noqa: E402

project = "Hindcast"
author = "The Hindcast developers"
copyright = "2026, The Hindcast developers"  # noqa: A001 - a name of Sphinx
version = release = _version()

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "docs.rule_titles"]
exclude_patterns = ["_build", "generate", "generated/parts", "**/.ipynb_checkpoints"]
suppress_warnings = ["myst.header"]  # parts of pages begin below the first level of headings

myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "cache"  # by the content of the notebook; a test runs it with the code as it is
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

smartquotes = False  # -- is an option, not a dash

html_theme = "furo"
html_title = "Hindcast"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False


def setup(app: Any) -> None:
    """Write the generated pages before Sphinx looks for pages."""
    app.connect(
        "builder-inited", lambda app: write_pages(Path(app.srcdir) / "generated", pages_of())
    )
