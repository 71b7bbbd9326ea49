"""The last row: the keys that hold, as many as there is room for, each of which can be clicked."""

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

EDGE, BETWEEN = 1, 2  # cells: left of the first key, right of each
ALWAYS = "app."  # the ids of keys that never give way: help and the way out


class KeyRow(Footer):
    """Textual's footer without the bindings of `hidden` (their ids), and without the last for which there is no room;
    they hold all the same.
    """

    DEFAULT_CSS = """
    KeyRow { padding-left: 1; background: $background; }
    KeyRow.-compact FooterKey { margin-right: 2; background: $background; }
    KeyRow .footer-key--key { color: $primary; background: $background; }
    KeyRow .footer-key--description { color: $foreground; background: $background; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, show_command_palette=False, compact=True)
        self.set_reactive(Footer._bindings_ready, True)  # else there are none in the first paint
        self.hidden: tuple[str, ...] = ()
        self._shown: list[tuple[str, str]] = []

    def compose(self) -> ComposeResult:
        self._shown = self._wanted()
        actions = {action for action, _ in self._shown}
        return (key for key in super().compose() if isinstance(key, FooterKey) and key.action in actions)

    async def recompose(self) -> None:
        """Exchanges the keys, the new ones first: the row is never empty."""
        if not self.is_attached:
            return
        async with self.batch():
            gone = list(self.children)
            await self.mount_all(list(self.compose()))
            await self.remove_children(gone)

    def on_resize(self) -> None:
        self.bindings_changed(self.screen)

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Exchanges the keys, unless they are the same: to mount widgets is dear."""
        if self._wanted() != self._shown:
            super().bindings_changed(screen)

    def hide(self, *ids: str) -> None:
        if ids == self.hidden:
            return
        self.hidden = ids
        self.call_next(self.bindings_changed, self.screen)

    def _wanted(self) -> list[tuple[str, str]]:
        bindings: dict[str, Binding] = {}
        for active in self.screen.active_bindings.values():
            if active.enabled and active.binding.show and active.binding.id not in self.hidden:
                bindings.setdefault(active.binding.action, active.binding)
        room = (self.size.width or self.app.size.width) - EDGE + BETWEEN - sum(map(self._cells, bindings.values()))
        for action, binding in reversed(list(bindings.items())):
            if room >= 0:
                break
            if not (binding.id or "").startswith(ALWAYS):
                room += self._cells(bindings.pop(action))
        return [(each.action, each.description) for each in bindings.values()]

    def _cells(self, binding: Binding) -> int:
        return len(self.app.get_key_display(binding)) + 1 + len(binding.description) + BETWEEN
