"""`python -m engine` is the command `bench`."""

import gc
import sys

try:
    gc.disable()  # nothing that is imported is garbage: to look for it takes a tenth of the time
    from engine.cli.main import main

    gc.freeze()
    gc.enable()
    main(prog_name="bench")
except KeyboardInterrupt:
    sys.exit(130)
