"""The building blocks of screens: lines of text, charts, ribbons, all drawn strip by strip."""
