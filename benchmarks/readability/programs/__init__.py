"""The corpus: `program()` of each file returns a function and its arguments."""
