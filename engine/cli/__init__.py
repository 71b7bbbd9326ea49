"""The command line: options into one call, the result into a table or JSON. A module for each command.

Hands out the command `bench`. Holds nothing that another package would want.
"""
