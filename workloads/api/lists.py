"""Lists with commas between their items, as a user types them."""

from __future__ import annotations

import re
from collections.abc import Iterable

# A quote opens an item, a value or a word; within one (an apostrophe) it is a letter.
_ITEM = re.compile(r"""((?:(?<![^\s=,])(?:"(?:[^"]|"")*"|'(?:[^'\\]|\\.)*')|[^,])*)(?:,|$)""", re.DOTALL)


def comma_list(text: str) -> list[str]:
    """The items of a list: a comma within quotes parts none, and an item that is quoted as a whole loses its quotes."""
    return [item for match in _ITEM.finditer(text) if (item := _unquoted(match[1].strip()))]


def comma_text(items: Iterable[object]) -> str:
    """The list that `comma_list` takes apart again."""
    return ",".join(_quoted(str(item)) for item in items)


def _unquoted(item: str) -> str:
    if len(item) < 2 or item[0] not in "\"'" or item[-1] != item[0] or item[0] in item[1:-1].replace('""', ""):
        return item
    return item[1:-1].replace('""', '"') if item[0] == '"' else item[1:-1]


def _quoted(item: str) -> str:
    """The item within quotes where a comma or another item's quote could change it."""
    plain = comma_list(item) == [item] and not set(item) & set("\"'")
    return item if plain else '"' + item.replace('"', '""') + '"'
