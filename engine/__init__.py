"""The core of pgbed: plans, servers, the run loop, samplers, the journal, analysis and reports."""
