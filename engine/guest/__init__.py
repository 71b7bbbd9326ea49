"""A machine with another kernel for a cell to run in: kernels by their labels, the initial file system, qemu.

Hands out `kernels.resolve`, `tools.find`, `accelerator.choose` and `machine.Guest`. Knows nothing of cells and steps.
"""
