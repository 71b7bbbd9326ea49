"""The search for the commit that made a step slower, made it miss its SLA, or made it fail.

Hands out `search.run()`. Knows nothing of the command line that asks for it.
"""
