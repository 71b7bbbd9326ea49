"""What load to put on a server, and the client processes that put it there. Knows nothing of the engine."""
