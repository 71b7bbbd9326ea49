"""What makes a screen settle on the size of its terminal, however fast that was changed."""

from textual import events
from textual.message_pump import MessagePump


class Settling(MessagePump):
    """To be put before the `Screen` that a class derives from: passes over sizes that the terminal no longer has.

    Textual sends a screen each of its new sizes once more. A screen that is slower than the terminal's changes would
    lay itself out for an older size again when that comes back, which sends both of them once more: with two sizes
    under way it changes between them for ever, and keeps a processor busy. The newest size is the application's, and
    it always comes last.
    """

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Resize) and event.size != self.app.size:
            return
        await super().on_event(event)
