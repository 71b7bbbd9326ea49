"""The fields of the Launch screen's plan: what load is put on, and how it is measured. See `tui.launch.items`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.errors import UserError
from tui.launch.items import Item, Offer, Question
from tui.launch.plan import Plan


def load(plan: Plan, offer: Offer) -> tuple[Item, ...]:
    """What load is put on, and how much of it."""
    presets = tuple(str(row["preset"]) for row in offer.presets)
    kind = plan.preset or plan.workload
    preset = offer.preset(plan)
    said = str(preset["question"]) if preset else "the Insert Benchmark; left and right choose a named plan instead"
    first = _choice(
        "workload", kind, (plan.workload, *presets), said,
        lambda value: plan.with_preset(value if value in presets else None),
    )  # fmt: skip
    if preset is not None:
        fixed = f"{plan.preset} is a plan of its own: it has its steps and sizes"
        return (first, Item("generation", text=str(preset["generation"]), detail=fixed))
    usual = offer.workload(plan)
    scale = plan.scale or (None if plan.rows is not None else (offer.scales or ("quick",))[0])
    detail = str(usual.get("note") or "a named size; rows of your own take its place")
    return (
        first,
        _choice("generation", plan.generation, offer.generations, "the Insert Benchmark as it was at that time",
                lambda value: _of_generation(plan, offer, value)),
        _choice("scale", scale, offer.scales, detail,
                lambda value: replace(plan, scale=None if value == offer.scales[0] else value, rows=None)),
        _number("rows", plan.rows, plan, "rows loaded per client, instead of a scale", usual=usual.get("rows"),
                take=lambda value: replace(plan, rows=value, scale=plan.scale if value is None else None)),
        _number("rows_written", plan.rows_written, plan, "rows of l.i1 and l.i2 together, per client",
                usual=None if plan.rows is not None else usual.get("rows_written")),
        _number("query_seconds", plan.query_seconds, plan, "nominal length of each query step",
                usual=None if plan.rows is not None else usual.get("query_s")),
    )  # fmt: skip


def design(plan: Plan, _: Offer) -> tuple[Item, ...]:
    """How it is measured."""
    return (
        _number("repeats", plan.repeats, plan, "cells per build, interleaved ABBA; a verdict needs 3, better 5",
                step=1, least=1),
        _yes("aa", "A/A", plan, "runs the base against itself too: the noise floor of this host"),
        Item("margin", text=f"{plan.margin:.1%}", detail="margin: the smallest effect that is called one",
             lesser=lambda: replace(plan, margin=max(0.005, round(plan.margin - 0.005, 4))),
             greater=lambda: replace(plan, margin=min(0.5, round(plan.margin + 0.005, 4))),
             question=Question("margin in percent", f"{plan.margin * 100:g}",
                               lambda text: replace(plan, margin=_float(text) / 100))),
        _number("clients", plan.clients, plan, "each with a table of its own", step=1, least=1),
        _number("seed", plan.seed, plan, "of the data; the same for all builds", step=1, least=0),
        Item("settings", text=" ".join(plan.overrides) or "-",
             detail=f"settings on top of every config: {' '.join(plan.overrides) or 'none'}",
             question=Question("settings on top of every config: NAME=VALUE, with spaces between",
                               " ".join(plan.overrides),
                               lambda text: replace(plan, overrides=tuple(text.split())))),
        _yes("keep", "keep", plan, "keeps every cell's cluster instead of removing it"),
        _yes("beside", "beside", plan, "runs although another run is measuring on this machine"),
        *((Item("knobs", text=" ".join(f"{name}={value}" for name, value in plan.knobs),
                detail="knobs of the workload, from the plan's file; space takes them away",
                toggle=lambda: replace(plan, knobs=())),) if plan.knobs else ()),
    )  # fmt: skip


def _of_generation(plan: Plan, offer: Offer, generation: str) -> Plan:
    changed = replace(plan, generation=generation)
    every = offer.steps(changed)
    left = tuple(step for step in plan.steps if step in every)
    return replace(changed, steps=() if len(left) == len(every) else left)


def _choice(name: str, value: str | None, values: Sequence[str], detail: str, take: Callable[[str], Plan]) -> Item:
    place = values.index(value) if value in values else -1

    if not values:
        return Item(name, text=value or "-", detail=f"{name}: {detail}")
    return Item(
        name,
        text=value or "-",
        detail=f"{name}: {detail}",
        toggle=lambda: take(values[(place + 1) % len(values)]),
        lesser=lambda: take(values[max(0, place - 1)]),
        greater=lambda: take(values[min(len(values) - 1, place + 1)]),
    )


def _number(
    name: str,
    value: int | None,
    plan: Plan,
    detail: str,
    *,
    usual: int | None = None,
    step: int = 0,
    least: int = 0,
    take: Callable[[int | None], Plan] | None = None,
) -> Item:
    def kept(number: int | None) -> Plan:
        return take(number) if take is not None else replace(plan, **{name: number})  # type: ignore[arg-type]

    def typed(text: str) -> Plan:
        if not text and not step:
            return kept(None)
        try:
            return kept(int(text.replace(",", "").replace("_", "")))
        except ValueError:
            raise UserError(f"{words}: '{text}' is not a whole number") from None

    words = name.replace("_", " ")
    shown = f"{value:,}" if value is not None else f"{usual:,}" if usual is not None else "(in proportion)"
    return Item(
        words,
        text=shown,
        detail=f"{words}: {detail}; space types it" + (", left and right move it" if step else ", empty as usual"),
        mark="" if value is not None else "dim",
        lesser=(lambda: kept(max(least, (value or 0) - step))) if step else None,
        greater=(lambda: kept((value or 0) + step)) if step else None,
        question=Question(f"{words}: {detail}", "" if value is None else str(value), typed),
    )


def _yes(name: str, words: str, plan: Plan, detail: str) -> Item:
    def other() -> Plan:
        return replace(plan, **{name: not getattr(plan, name)})  # type: ignore[arg-type]

    value = bool(getattr(plan, name))
    return Item(words, text="yes" if value else "no", detail=f"{words}: {detail}", toggle=other, lesser=other,
                greater=other)  # fmt: skip


def _float(text: str) -> float:
    try:
        return float(text.rstrip("% "))
    except ValueError:
        raise UserError(f"'{text}' is not a number") from None
