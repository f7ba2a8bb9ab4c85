"""Python text: identifiers and layout. Knows nothing of JAX."""
