"""Layer 7: shrink a failing program to the few equations that fail."""
