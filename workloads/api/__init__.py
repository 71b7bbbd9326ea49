"""Everything that the author of a workload imports to describe it: steps, options, plans of statements.

Knows neither the registry nor how clients run.
"""
