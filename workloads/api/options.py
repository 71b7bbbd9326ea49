"""Options as a class: a msgspec Struct, from whose fields command line, plan file, Launch screen and manifest derive.

    class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
        clients: Annotated[int, Meta(ge=1, le=256), about("Clients.", metavar="N")] = 1

A field is a whole number, a number, text, one of several words (`Literal`), true or false, or a tuple of texts or whole
numbers; with `| None` where leaving it out means something of its own. The options of a field that is such a class
stand among the others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, inspect

from workloads.api.lists import comma_list, comma_text
from workloads.api.names import pick
from workloads.api.quantity import figure

S = TypeVar("S", bound=msgspec.Struct)

MAX_CLIENTS = 256
# The groups of options in help texts, in order.
COMPARE = "What to compare"
WORKLOAD = "Workload"
SURENESS = "How long and how sure"
CAUSES = "Causes"
WHERE = "Where"
OUTPUT = "Output"
KERNELS = "Kernels and guests"
EXTERNAL = "External servers"
GROUPS = (COMPARE, WORKLOAD, SURENESS, CAUSES, WHERE, OUTPUT, KERNELS, EXTERNAL)


@dataclass(frozen=True, slots=True)
class Option:
    """A field of an options class. `kind` is int, float, str or bool; `many` of them are a list.

    `group` is one of `GROUPS`; `brief` is its line in the short help, which omits options without one. A `rare` option
    has no flag: the command line takes it as `-O NAME=VALUE`. `unset` says what happens without the option, if the
    default is not a value; `repeated` options are given once for each item; `excludes` names options that cannot be
    given together with it. One option of a workload may be its `argument`: WORKLOAD:VALUE. `unit` is the unit of a
    number without one. `least` and `most` are allowed, `above` is not.
    """

    name: str
    text: str
    kind: str
    default: Any
    many: bool = False
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    above: float | None = None
    metavar: str = ""
    flag: str = ""
    group: str = WORKLOAD
    brief: str = ""
    rare: bool = False
    unset: str = ""
    repeated: bool = False
    excludes: Sequence[str] = ()
    argument: bool = False
    unit: str = ""  # of `quantity.UNITS`; empty for a count

    @property
    def words(self) -> str:
        """Description of valid values: "a whole number from 1 to 256"."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        one, several = {"int": ("a whole number", "whole numbers"), "float": ("a number", "numbers"),
                        "str": ("text", "texts"), "bool": ("true or false", "")}[self.kind]  # fmt: skip
        what = f"a list of {several}" if self.many else one
        if self.least is not None and self.most is not None:
            return f"{what} from {_plain(self.least)} to {_plain(self.most)}"
        if self.above is not None:
            return f"{what} greater than {_plain(self.above)}" + (f", at most {_plain(self.most)}" if self.most else "")
        return what if self.least is None else f"{what} of at least {_plain(self.least)}"

    def parsed(self, text: str) -> Any:
        """Parse a value; None for an empty text. Raises ValueError."""
        one = self._figure if self.kind in ("int", "float") else str
        parts = comma_list(text) if self.many else [text]
        items = [one(part) for part in parts if part]
        return (items if self.many else items[0]) if items else None

    def _figure(self, text: str) -> int | float:
        value = figure(text, self.unit)
        if self.kind == "float":
            return float(value)
        if value.denominator != 1:
            raise ValueError(f"'{text}' is not a whole number")
        return int(value)

    def refusal(self, value: Any) -> str:
        """The error for a number out of bounds, with the valid ones; empty for a valid number."""
        if self.kind not in ("int", "float"):
            return ""
        for one in value if self.many and isinstance(value, (list, tuple)) else (value,):
            if self.least is not None and one < self.least:
                return f"{one:,} is too small: give at least {_plain(self.least)}"
            if self.above is not None and one <= self.above:
                return f"{one:,} is too small: give a number greater than {_plain(self.above)}"
            if self.most is not None and one > self.most:
                percent = f", or write {_plain(one)}%" if self.metavar == "FRACTION" and one <= 100 * self.most else ""
                return f"{one:,} is too large: give at most {_plain(self.most)}{percent}"
        return ""

    def arguments(self, value: Any) -> tuple[str, ...]:
        if self.rare:
            text = comma_text(value) if self.many else str(value).lower() if self.kind == "bool" else str(value)
            return ("-O", f"{self.name}={text}")
        if self.kind == "bool":
            return (self.flag,) if value else ()
        if self.repeated:
            return tuple(word for item in value for word in (self.flag, str(item)))
        return (self.flag, comma_text(value) if self.many else str(value))


def _plain(bound: float) -> str:
    return f"{int(bound):,}" if bound == int(bound) else f"{bound:g}"


def about(text: str, **more: Any) -> Meta:
    """Describe a field: its help text, and other attributes of its `Option`. Its flag is `--NAME` unless given."""
    return Meta(description=text, extra=more)


Clients = Annotated[
    int,
    Meta(ge=1, le=MAX_CLIENTS),
    about("Clients, each with its own table.", brief="Clients; pgbench: a step for each number.", metavar="N"),
]
Steps = Annotated[
    tuple[str, ...], about("Run only these steps, e.g. l.i0,l.x,l.i1.", brief="Run only these steps.", metavar="STEP,…")
]
PresetName = Annotated[
    str | None,
    about("Run a named plan (see bench list presets).", brief="A named plan (bench list presets).", metavar="NAME"),
]


@cache
def options_of(cls: type[msgspec.Struct]) -> tuple[Option, ...]:
    """The fields of an options class in order; those without `about` are left out."""
    groups = groups_of(cls)
    parts = (
        options_of(groups[field.name]) if field.name in groups else (_option(field),)
        for field in _fields(cls)
        if field.name in groups or isinstance(field.type, inspect.Metadata)
    )
    return tuple(chain.from_iterable(parts))


def groups_of(cls: type[msgspec.Struct]) -> dict[str, type[msgspec.Struct]]:
    """The fields of an options class that are options classes themselves."""
    return {field.name: field.type.cls for field in _fields(cls) if isinstance(field.type, inspect.StructType)}


@cache  # a plan asks dozens of times, each of which takes 10 ms
def _fields(cls: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    struct = inspect.type_info(cls)
    assert isinstance(struct, inspect.StructType)
    return struct.fields


def given(options: msgspec.Struct, also: Collection[str] = ()) -> dict[str, Any]:
    """The fields that differ from their defaults, and those in `also`; tuples as lists."""
    usual = {option.name: option.default for option in options_of(type(options))}
    values = msgspec.structs.asdict(options)
    for group in groups_of(type(options)):
        values |= msgspec.structs.asdict(values.pop(group))
    return {
        name: list(value) if isinstance(value := values[name], tuple) else value
        for name, default in usual.items()
        if values[name] != default or name in also
    }


def checked(cls: type[S], values: Mapping[str, Any], *, texts: bool = False) -> S:
    """Make an instance; `texts` allows values that are text, as on the command line.

    Raises UnknownName for an unknown option or choice, ValueError for a value of another type or out of bounds, each
    with a message of one line that names the option.
    """
    known = {option.name: option for option in options_of(cls)}
    plain: dict[str, Any] = {}
    for name, value in values.items():
        option = pick("option", name, known)
        if option.choices and isinstance(value, str):
            pick(name.replace("_", " "), value, dict.fromkeys(option.choices))
        if option.many and texts and isinstance(value, str):
            value = comma_list(value)
        if option.kind in ("int", "float") and isinstance(value, str):
            with suppress(ValueError):  # the check below reports an invalid value
                value = option.parsed(value)
        plain[name] = [value] if option.many and isinstance(value, int) else value  # a single number is a list of one
    for group, of in groups_of(cls).items():
        names = {option.name for option in options_of(of)} & plain.keys()
        plain[group] = {name: plain.pop(name) for name in names}
    try:
        return msgspec.convert(plain, cls, strict=not texts)
    except msgspec.ValidationError as error:
        place = re.search(r"\$(?:\.\w+)*\.(\w+)", str(error))
        if place is None:
            raise ValueError(str(error)) from None
        option = known[place.group(1)]
        raise ValueError(f"{option.name} must be {option.words}, not {values[option.name]!r}") from None


def _option(field: inspect.Field) -> Option:
    meta = field.type
    assert isinstance(meta, inspect.Metadata)
    of: Any = meta.type
    if isinstance(of, inspect.UnionType):
        (of,) = (part for part in of.types if not isinstance(part, inspect.NoneType))
    many = isinstance(of, (inspect.VarTupleType, inspect.TupleType))
    if many:
        of = of.item_type if isinstance(of, inspect.VarTupleType) else of.item_types[0]
    kinds = {inspect.IntType: "int", inspect.FloatType: "float", inspect.BoolType: "bool"}
    return Option(
        name=field.name,
        text=(meta.extra_json_schema or {}).get("description", ""),
        kind=kinds.get(type(of), "str"),
        default=field.default,
        many=many,
        choices=tuple(map(str, of.values)) if isinstance(of, inspect.LiteralType) else (),
        least=getattr(of, "ge", None),
        most=getattr(of, "le", None),
        above=getattr(of, "gt", None),
        **{"flag": "" if (more := meta.extra or {}).get("rare") else "--" + field.name.replace("_", "-"), **more},
    )
