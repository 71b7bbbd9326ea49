"""Builds: from a label of `--pg` to a server in the Nix store.

Hands out `resolve.resolve()`. Knows source trees, commits, patches, variants and Nix; nothing of a server that runs.
"""
