"""The record of a run: its schema, its one writer, its readers, and where runs are kept.

Exports `JournalWriter` and `JournalReader`. Knows neither servers nor workloads.
"""
