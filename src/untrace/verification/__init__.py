"""Whether two computations are the same, and where they differ if not."""
