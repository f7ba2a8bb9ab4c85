"""Names of values and containers, and the accesses that lead to their parts."""
