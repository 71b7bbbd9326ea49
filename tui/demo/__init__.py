"""The guided minute over the packaged recording: the keys it presses, and the guide's words."""
