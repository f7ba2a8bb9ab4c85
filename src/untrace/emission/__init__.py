"""From a listing to the text of a module."""

from untrace.emission.module import Module, emit

__all__ = ["Module", "emit"]
