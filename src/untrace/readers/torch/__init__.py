"""Modules of PyTorch: they run on tensors that stand for JAX arrays, and are traced.

Nothing here is imported before a module of torch is seen.
"""
