"""Response times: of statements, in buckets and percentiles, and of transactions that are timed one by one."""

from engine.features.feature import TablesOnly

FEATURE = TablesOnly(__name__)
