"""Transactions and their statements: outcomes, the times of scripts and statements, and one execution of each."""

from engine.features.feature import TablesOnly

FEATURE = TablesOnly(__name__)
