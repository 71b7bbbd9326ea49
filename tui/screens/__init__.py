"""The base of all screens, and the dialogs that open over them."""
