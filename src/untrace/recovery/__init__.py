"""Recover what a jaxpr has lost: the calls, names and functions of the traced run."""
