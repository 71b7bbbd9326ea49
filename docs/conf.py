"""How Sphinx makes the manual; the pages of the reference are written from the code first."""

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import generated  # noqa: E402

project = "pgbed"
author = "the pgbed authors"
copyright = "2026, the pgbed authors"
release = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["version"]
extensions = ["myst_parser"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
(HERE / "sample").mkdir(exist_ok=True)  # Sphinx looks for it before it is filled
html_extra_path = ["sample"]
highlight_language = "bash"
smartquotes = False  # they would turn the dashes of options into others
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["manual.css"]
html_title = f"pgbed {release}"
html_copy_source = False
html_show_sphinx = False


def setup(app):
    """Writes the generated pages before the others are read."""
    app.connect("builder-inited", lambda app: generated.write(Path(app.srcdir)))
