"""Solving a program for its inputs: what is known of each value, and what follows."""
