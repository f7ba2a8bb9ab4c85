"""Solvers and batching rules: custom_vmap."""
