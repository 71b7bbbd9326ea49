"""One-shot timings: what a server or a program takes to do one thing once, timed by hyperfine."""
