"""The command line: options in, one call, a table or JSON out; a module for each command.

Hands out `main`, the command `bench`. Holds nothing that another package would want to know.
"""
