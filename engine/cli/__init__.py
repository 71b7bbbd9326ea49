"""The command line, a module per command: options into one call, the result into a table or JSON."""
