"""Functions of the user and of libraries: which stay, their parameters and results."""
