"""The record of a run: its schema, the one writer, any number of readers, and where runs are kept.

Hands out `JournalWriter` and `JournalReader`. Knows neither servers nor workloads.
"""
