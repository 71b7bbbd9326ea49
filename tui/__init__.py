"""The terminal: screens that read the journal. They change a run only by calling `bench`."""

MODES = ("launch", "live", "compare", "probes", "history")  # in the order of their number keys
