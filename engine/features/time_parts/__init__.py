"""Parts of a step's time: stalls and where they hung, waits, scheduling, and the times of programs."""

from engine.features.feature import TablesOnly

FEATURE = TablesOnly(__name__)
