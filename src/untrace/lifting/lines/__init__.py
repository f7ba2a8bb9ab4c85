"""The lines of a generated function, folded and shared once all are known."""
