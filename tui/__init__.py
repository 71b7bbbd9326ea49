"""The terminal: screens that read the journal. Nothing here touches a run but by asking `bench`."""
