"""Names of values: what JAX kept of them, and what the files of the user say."""
