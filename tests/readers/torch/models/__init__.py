"""Models as users of PyTorch write them, one kind a file."""
