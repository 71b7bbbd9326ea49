"""The guided minute over the packaged recording: what is pressed, and what is said about it."""
