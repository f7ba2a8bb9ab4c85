"""Programs of the kinds that JAX's documentation teaches, in our own words.

Each module adds its programs to the registry of `tests.corpus.registry`.
"""
