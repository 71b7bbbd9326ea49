"""The guided minute over the packaged recording: the keys that are pressed, and the words of the guide."""
