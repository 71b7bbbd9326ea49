"""The user's own application: its data, its statements, the plans that servers choose for them."""
