"""Primitives with sub-programs: control flow, calls, derivatives, state, kernels."""
