"""The style sheet of the application, which is read anew only when there is something new in it."""

from textual.css.stylesheet import Stylesheet


class FrugalStylesheet(Stylesheet):
    """The framework reads all its sources anew, without its own cache, for every screen that opens.

    That was a fifth of the time to the first paint. It is needed only where a theme has changed the variables.
    """

    _outdated = False  # the variables are others than those that the sources were read with

    def set_variables(self, variables: dict[str, str]) -> None:
        """Takes them, and forgets what was read with others."""
        if variables != self._variables:
            super().set_variables(variables)
            self._outdated = True

    def reparse(self) -> None:
        """Reads what has to be read."""
        if self._outdated:
            super().reparse()
            self._outdated = False
        else:
            self.parse()
