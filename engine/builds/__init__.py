"""Builds: from a label of `--pg` to a server in the Nix store; `resolve.resolve()` is the entry point.

Knows source trees, commits, patches, variants and Nix, but no running server.
"""
