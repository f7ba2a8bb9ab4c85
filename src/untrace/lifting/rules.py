"""Placeholder until the table lands."""
FORMATS = {}
NAMES = {}
