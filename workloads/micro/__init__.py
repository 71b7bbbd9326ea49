"""One-shot timings: a server or a program does one thing once, timed by hyperfine."""
