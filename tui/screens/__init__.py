"""The five screens, one module each, and what lies over them."""
