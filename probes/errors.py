"""What can go wrong with probes, as one line each. The engine turns it into its own error for the user."""


class ProbeError(Exception):
    """Something the user can mend; the text is one clear line: what, where, what to do."""
