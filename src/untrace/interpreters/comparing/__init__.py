"""`untrace.diff`: which statements of two programs differ."""
