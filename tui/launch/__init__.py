"""Launch: what is to be compared, how, and whether this machine is fit for it."""
