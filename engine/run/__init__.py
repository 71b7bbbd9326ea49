"""Running a plan: cells one after another, each on a fresh server, its steps loaded and watched.

Hands out the engine that `bench run` starts in a process of its own. Knows neither statistics nor the screen.
"""
