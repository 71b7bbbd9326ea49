"""Runs in blocks on Nix's remote builders: one derivation for each block of a plan, whose output is a run folder.

Hands out `blocks.realise()`. Knows nothing of the command line that asks for it.
"""
