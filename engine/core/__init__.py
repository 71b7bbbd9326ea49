"""The foundation: errors, clock, text, number formats, and the values of a plan.

Imports nothing else of the project.
"""
