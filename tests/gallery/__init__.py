"""The gallery of the documentation: programs, and what comes out of them."""
