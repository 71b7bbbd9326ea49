"""The ground: errors, clock, text, number formats, and the values of a plan.

Imports nothing of the project.
"""
