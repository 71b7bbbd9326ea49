"""What is sampled each second, stalls while they last, and their likeliest causes.

Hands out the sampler of a step. The stall detector and the ranking of causes are pure functions.
"""
