"""`python -m engine` is the command `bench`."""

import sys

try:
    from engine.cli.main import main

    main(prog_name="bench")
except KeyboardInterrupt:
    sys.exit(130)
