"""Blocks of a plan on Nix's remote builders: one derivation each, whose output is a run directory.

Hands out the blocks of a plan (`plan`), their derivations and how they are realised (`blocks`), and what happens within
such a build (`inside`). Knows neither how a run is conducted nor what its figures mean.
"""
