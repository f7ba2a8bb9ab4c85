"""Which axes of a program are one, for sizes with names and for the reducer."""
