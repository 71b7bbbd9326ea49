"""`python -m engine` is the command `bench`."""

from engine.cli import main

main(prog_name="bench")
