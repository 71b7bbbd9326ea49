"""Nix's builders by their lines: which of them offer to measure, which remain without one, why none takes a block."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from engine.builds.nix_log import NixError
from engine.core.errors import UserError
from engine.system.files import read_text

COLUMNS_OF_FEATURES = (5, 6)  # supported and mandatory ones
REFUSED = re.compile(r"cannot build on '([^']+)': (?:error: )?(.+)")
# Nix's message that no builder takes a build, which depends on its version.
FEATURE = "benchmark"  # which a block's builder offers
NOBODY = re.compile(r"unable to start any build|with features \{[^}]*\} is required to build", re.I)
NO_REASON = "unexpected end-of-file"  # Nix's message when ssh gave the reason on the line before
SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class Builders:
    """Builders as in nix.conf, or None for those that Nix knows."""

    spec: str | None

    def offers(self, line: str) -> bool:
        return any(FEATURE in _column(line, place) for place in COLUMNS_OF_FEATURES)


def check(builders: Builders) -> None:
    """Raise UserError if there are no builders, or if none of them offers to measure; the text names them."""
    known = lines(builders.spec)
    if not known:
        raise UserError(
            f"there are no builders: name them in /etc/nix/machines, or with --builders '{_example(builders)}'"
        )
    if any(map(builders.offers, known)):
        return
    named = ", ".join(f"'{line.split()[0]}'" for line in known)
    raise UserError(
        f"no builder takes a block: {named} {'does' if len(known) == 1 else 'do'} not offer the feature "
        f"{FEATURE}; a builder is '{_example(builders)}', in --builders or /etc/nix/machines, and has it in "
        "system-features of its nix.conf"
    )


def without(builders: Builders, place: str) -> Builders:
    known = lines(builders.spec)
    others = [line for line in known if line.split()[0] not in (place, place.removeprefix("ssh://"))]
    lost = any(map(builders.offers, others)) and len(others) < len(known)
    return replace(builders, spec="\n".join(others)) if lost else builders


def unreachable(errors: Sequence[NixError]) -> dict[str, str]:
    """The builders that Nix could not reach, and why; in ssh's words if Nix gives no reason."""
    reasons = {}
    for error in errors:
        if match := REFUSED.search(error.text):
            why = error.before if NO_REASON in match[2] and error.before else match[2]
            reasons[match[1]] = why[:SHOWN_CHARS]
    return reasons


def why_none(errors: Sequence[NixError], builders: Builders) -> str:
    """The reason why no builder took a block, or "" if Nix's errors do not give one."""
    if not any(NOBODY.search(error.text) for error in errors):
        return ""
    if refused := unreachable(errors):
        return f"no builder can be reached: {'; '.join(f'{place}: {why}' for place, why in refused.items())}"
    return (
        f"no builder takes a block: one is needed that offers the feature {FEATURE} for "
        f"{os.uname().machine}-linux; add it to that machine's line in --builders or /etc/nix/machines, and to "
        "system-features in its nix.conf"
    )


def lines(builders: str | None) -> list[str]:
    """The lines of these builders, or of those that Nix knows. Raises UserError for an unreadable file."""
    value = _known_to_nix() if builders is None else builders
    lines_read = []
    for line in re.split(r"[;\n]", value):
        if line.strip().startswith("@"):
            path = Path(line.strip()[1:])
            if builders is not None or path.is_file():
                lines_read += read_text(path, "--builders", errors="replace").splitlines()
        else:
            lines_read.append(line)
    return [line.strip() for line in lines_read if line.strip() and not line.strip().startswith("#")]


def _known_to_nix() -> str:
    for words in (["config", "show"], ["show-config"]):  # the second up to 2.19
        command = ["nix", "--extra-experimental-features", "nix-command", *words, "--json"]
        asked = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        with suppress(ValueError, KeyError, TypeError):
            return str(json.loads(asked.stdout)["builders"]["value"])
    return ""


def _column(line: str, place: int) -> list[str]:
    columns = line.split()
    return columns[place].split(",") if place < len(columns) else []


def _example(builders: Builders) -> str:
    return f"ssh-ng://USER@HOST {os.uname().machine}-linux - 1 1 {FEATURE}"
