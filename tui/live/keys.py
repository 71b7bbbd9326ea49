"""The keys of the Live screen: of a run under way, of a replay, and of both."""

from __future__ import annotations

from textual.binding import Binding

from tui.keys import key

KEYS: list[Binding] = [
    key("space", "hold", "pause", "live.pause"),
    key("n", "stall(1)", "stall", "live.next_stall", shown="n/N"),
    key("N", "stall(-1)", "stall before", "live.previous_stall", show=False),
    key("enter", "detail", "detail", "live.detail"),
    key("z", "zoom", "zoom", "live.zoom"),
    key("i", "role", "role", "live.role"),
    key("m", "mark", "mark", "live.mark"),
    key("left_square_bracket", "seek(-1)", "1 s", "live.back", shown="[ ]"),
    key("right_square_bracket", "seek(1)", "on 1 s", "live.on", show=False),
    key("left_curly_bracket", "seek(-10)", "back 10 s", "live.back_more", show=False),
    key("right_curly_bracket", "seek(10)", "on 10 s", "live.on_more", show=False),
    key("comma", "speed(-1)", "speed", "live.slower", shown=", ."),
    key("full_stop", "speed(1)", "faster", "live.faster", show=False),
    key("g", "go", "go to a time", "live.go", show=False),
]
# What the last row leaves out: in a replay, and live.
LIVE_ONLY = ("live.mark", "live.zoom", "live.role")
REPLAY_ONLY = ("live.back", "live.slower")
