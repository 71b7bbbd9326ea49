"""The core of pgbed: plans, servers, the run loop, samplers, the journal, and what is said about a run."""
