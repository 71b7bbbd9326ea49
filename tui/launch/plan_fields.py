"""Fields of the plan on the Launch screen: the workload's options, and the design. See `tui.launch.choices`."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from engine.core.errors import UserError
from engine.plan.request import Request, feature_options
from tui.launch.choices import Choices, Item, Question
from tui.launch.plan_edits import repeats_of, steps_of, with_option, with_workload
from workloads.api.lists import comma_text
from workloads.api.options import EXTERNAL, Option, options_of
from workloads.api.quantity import EXAMPLES

SCALE = "scale"
LONG = 10_000  # from here on, numbers are shown with a suffix for their zeros
SHORT = {"accept_foreign_load": "accept load", "scratch_database": "scratch db"}  # to fit beside their values
OTHER_PANELS = ("steps", "preset", "clients")  # options chosen elsewhere on the screen


def load(plan: Request, offer: Choices) -> tuple[Item, ...]:
    """The workload and its options."""
    presets = {str(row["preset"]): str(row["workload"]) for row in offer.presets if not row.get("title")}
    preset = offer.preset(plan)
    names = tuple(dict.fromkeys((*offer.descriptions, plan.workload)))
    description = str(preset["question"]) if preset else offer.descriptions.get(plan.workload, "")

    def chosen(value: str) -> Request:
        return with_workload(plan, presets.get(value, value), value if value in presets else None)

    detail = f"{description}; left and right choose another, or a named plan"
    first = _choice("workload", plan.options.get("preset", plan.workload), (*names, *presets), detail, chosen)
    options = [option for option in offer.options_of(plan) if option.name not in OTHER_PANELS]
    options.sort(key=lambda option: option.rare)  # those without a flag come last
    if preset is not None:
        fixed = f"{preset['preset']} is a plan of its own: it has its steps and sizes"
        texts = [option.name for option in options if isinstance(preset.get(option.name), str)]
        sizes = tuple(map(str, preset.get("scales", ())))
        scales = [dataclasses.replace(option, choices=sizes) for option in options if sizes and option.name == SCALE]
        return (
            first,
            *(_option(option, plan, offer) for option in scales),
            *(Item(name, text=str(preset[name]), detail=fixed) for name in texts),
        )
    sized = any(SCALE in row for row in offer.workloads if row["workload"] == plan.workload)  # otherwise only presets
    return (first, *(_option(option, plan, offer) for option in options if sized or option.name != SCALE))


def design(plan: Request, offer: Choices, estimate: Mapping[str, Any] | None = None) -> tuple[Item, ...]:
    """The design of the run; values that the plan leaves open come from the estimate."""
    fields = {option.name: option for option in options_of(Request)}
    clients = [_option(option, plan, offer) for option in offer.options_of(plan) if option.name == "clients"]
    interleave = (estimate or {}).get("interleave", plan.interleave)
    step = 2 if interleave == "cells" else 1  # an even number of whole cells balances their order
    given = plan.entries()
    of_servers = (one for one in fields.values() if one.group == EXTERNAL and (plan.external or one.name in given))
    return (
        _number("repeats", repeats_of(plan, estimate),
                "cells per build; a verdict needs 3; better 4 or 6, so that each build is first equally often",
                lambda value: replace(plan, repeats=value or 1, until_known=False), fields["repeats"], step=step,
                least=step),
        _yes("A/A", plan.aa, "also runs the base against itself: the noise floor of this machine",
             lambda value: replace(plan, aa=value)),
        _choice("interleave", plan.interleave, ("auto", "slices", "cells"),
                "slices: servers side by side, interleaved in all steps that allow it; cells: one server at a "
                "time; auto: slices where possible",
                lambda value: replace(plan, interleave=value)),
        _yes("until known", plan.until_known, "ends once every step is decided, or after 8 pairs in slices; "
             "takes the place of repeats and minutes",
             lambda value: replace(plan, until_known=value, repeats=None, minutes=None)),
        Item("minutes", text=f"{plan.minutes:g}" if plan.minutes else "-", mark="" if plan.minutes else "dim",
             detail="minutes: time for the whole run; in slices without repeats, decided steps leave theirs to "
                    "undecided ones; empty: no limit",
             question=Question("time for the whole run, in minutes", f"{plan.minutes:g}" if plan.minutes else "",
                               lambda text: replace(
                                   plan, minutes=_given("minutes", fields["minutes"], text), until_known=False),
                               _forms(fields["minutes"], "as much as the repeats take"))),
        Item("margin", text=f"{plan.margin:.1%}", detail="margin: the smallest effect that matters",
             lesser=lambda: replace(plan, margin=max(0.005, round(plan.margin - 0.005, 4))),
             greater=lambda: replace(plan, margin=min(0.5, round(plan.margin + 0.005, 4))),
             question=Question("margin in percent", f"{plan.margin * 100:g}",
                               lambda text: replace(plan, margin=_percent(fields["margin"], text)),
                               f"1.5 or 1.5%; default {fields['margin'].default:.1%}")),
        *clients,
        _number("seed", plan.seed, "of the data; the same for all builds",
                lambda value: replace(plan, seed=value or 0), fields["seed"], step=1),
        Item("settings", text=" ".join(plan.overrides) or "-",
             detail=f"settings on top of every config: {' '.join(plan.overrides) or 'none'}",
             question=Question("settings on top of every config: NAME=VALUE, separated by spaces",
                               " ".join(plan.overrides),
                               lambda text: replace(plan, overrides=tuple(text.split())))),
        Item("each value", text=plan.set_each or "-",
             detail=f"each value of a setting makes a config, on top of those chosen: {plan.set_each or 'none'}",
             question=Question("values of one setting to compare: NAME=VALUE,VALUE,…", plan.set_each or "",
                               lambda text: replace(plan, set_each=text or None))),
        _yes("keep", plan.keep, "keeps every cell's cluster instead of removing it",
             lambda value: replace(plan, keep=value)),
        _yes("concurrent", plan.allow_concurrent, "runs even if another run is measuring on this machine",
             lambda value: replace(plan, allow_concurrent=value)),
        *(_option(option, plan, offer) for option in (*feature_options(), *of_servers)),
    )  # fmt: skip


def _option(option: Option, plan: Request, offer: Choices) -> Item:
    value = plan.entries().get(option.name)
    detail = option.text[:1].lower() + option.text[1:].removesuffix(".")
    words = SHORT.get(option.name, option.name.replace("_", " "))

    def take(new: Any) -> Request:
        usual = new is None or new == option.default or new == option.unset
        changed = with_option(plan, option.name, None if usual else new, option.excludes)
        every, chosen = offer.steps(changed), steps_of(changed)
        left = [step for step in chosen if step in every]
        return changed if len(left) == len(chosen) else with_option(changed, "steps", left or None)

    if option.kind == "bool":
        return _yes(words, bool(option.default if value is None else value), detail, take)
    values = offer.values(plan, option)
    if values:
        excluded = any(option.name in other.excludes for other in offer.options_of(plan) if other.name in plan.options)
        shown = value if value is not None else None if excluded else option.default or option.unset or values[0]
        return _choice(words, shown, values, detail, take)
    if option.kind == "int" and not option.many:
        step, least = (1, int(option.least or 0)) if option.default is not None else (0, 0)
        given = value if value is not None else option.default
        return _number(words, given, detail, take, option, usual=offer.usual(plan).get(option.name), unset=option.unset,
                       step=step, least=least)  # fmt: skip
    text = "" if value is None else comma_text(value) if option.many else str(value)

    def typed(answer: str) -> Request:
        return take(_given(words, option, answer))

    return Item(words, text=text or "-", detail=f"{words}: {detail}", mark="" if text else "dim",
                question=Question(f"{words}: {detail}", text, typed, _forms(option)))  # fmt: skip


def _choice(name: str, value: str | None, values: Sequence[str], detail: str, take: Callable[[str], Request]) -> Item:
    place = values.index(value) if value in values else -1
    return Item(
        name,
        text=value or "-",
        detail=f"{name}: {detail}",
        toggle=lambda: take(values[(place + 1) % len(values)]),
        lesser=lambda: take(values[max(0, place - 1)]),
        greater=lambda: take(values[min(len(values) - 1, place + 1)]),
    )


def _number(
    words: str,
    value: int | None,
    detail: str,
    take: Callable[[int | None], Request],
    option: Option,
    *,
    usual: int | None = None,
    unset: str = "",
    step: int = 0,
    least: int = 0,
) -> Item:
    def typed(text: str) -> Request:
        value = _given(words, option, text)
        if value is None and step:
            raise UserError(f"{words}: give {option.words}")
        return take(value)

    missing = f"{usual:,.0f}" if usual is not None else f"({unset or 'not set'})"
    return Item(
        words,
        text=f"{value:,}" if value is not None else missing,
        detail=f"{words}: {detail}; space types it" + (", left/right change it" if step else ", empty: default"),
        mark="" if value is not None else "dim",
        lesser=(lambda: take(max(least, (value or 0) - step))) if step else None,
        greater=(lambda: take((value or 0) + step)) if step else None,
        question=Question(
            f"{words}: {detail}",
            "" if value is None else str(value),
            typed,
            _forms(option, f"{usual:,}" if usual is not None else "", may_be_empty=not step),
        ),
    )


def _yes(words: str, value: bool, detail: str, take: Callable[[bool], Request]) -> Item:
    def other() -> Request:
        return take(not value)

    return Item(words, text="yes" if value else "no", detail=f"{words}: {detail}", toggle=other, lesser=other,
                greater=other)  # fmt: skip


def _forms(option: Option, usual: str = "", *, may_be_empty: bool = True) -> str:
    """Valid input for an option, with an example and the default; `usual` is one that depends on other options."""
    long = option.kind in ("int", "float") and (option.most is None or option.most >= LONG)
    such = f", such as {EXAMPLES[option.unit]}" if long or option.unit else ""
    default = usual or option.unset or ("" if option.default in (None, "", ()) else f"{option.default}")
    otherwise = f"; {'empty' if may_be_empty else 'default'}: {default or 'none'}"
    return f"{option.words}{such}{otherwise}"


def _given(words: str, option: Option, text: str) -> Any:
    """Parse the text typed for an option, None if empty. Raises UserError, in prose, if it is invalid."""
    try:
        value = option.parsed(text)
    except ValueError as error:
        wanted = f"{words}: '{text}' is not {option.words}" if option.many else f"{words}: {error}"
        raise UserError(wanted) from None
    if value is not None and (refusal := option.refusal(value)):
        raise UserError(f"{words}: {refusal}")
    return value


def _percent(option: Option, text: str) -> float:
    """Parse a share in percent, with or without the sign."""
    value = _given("margin", option, text if text.rstrip().endswith("%") else f"{text}%")
    return float(value)
