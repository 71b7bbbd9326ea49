"""Launch: choose what to compare and how, and check that this machine is fit for it."""
