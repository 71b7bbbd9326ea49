"""The last row: the keys that hold, each of which can be clicked."""

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Footer
from textual.widgets._footer import FooterKey


class KeyRow(Footer):
    """Textual's footer without the bindings of `hidden` (their ids), which hold all the same."""

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

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Draws the row anew, unless it is as it was: while widgets are exchanged the row is empty."""
        if self._wanted() != self._shown:
            super().bindings_changed(screen)

    def hide(self, *ids: str) -> None:
        if ids == self.hidden:
            return
        self.hidden = ids
        self.call_next(self.bindings_changed, self.screen)

    def _wanted(self) -> list[tuple[str, str]]:
        bindings = [active.binding for active in self.screen.active_bindings.values() if active.enabled]
        return [(each.action, each.description) for each in bindings if each.show and each.id not in self.hidden]
