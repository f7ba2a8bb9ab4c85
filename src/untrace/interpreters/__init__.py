"""Programs run equation by equation: watched, inverted, compared."""
