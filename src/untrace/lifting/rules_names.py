"""Nouns for the results of primitives."""

NAMES: dict[str, str] = {}
