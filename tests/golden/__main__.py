"""Writes the golden files anew: `python -m tests.golden`, with PGBED_SERVERS as the tests have it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from engine.builds import resolve
from tests.golden import outputs


def main() -> None:
    servers = sorted(Path(os.environ["PGBED_SERVERS"]).iterdir())
    with tempfile.TemporaryDirectory(prefix="pgbed-golden-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        texts = outputs.texts(Path(folder), [resolve.local_build(prefix.name, prefix) for prefix in servers])
    for name in outputs.files():
        (outputs.HOME / name).unlink()
    for name, text in texts.items():
        path = outputs.HOME / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
