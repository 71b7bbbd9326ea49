"""The terminal: screens that read the journal. Nothing here touches a run but by asking `bench`."""

MODES = ("launch", "live", "compare", "probes", "history")  # the screens, by their numbers
