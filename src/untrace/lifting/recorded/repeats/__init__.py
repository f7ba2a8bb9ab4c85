"""Repetition: blocks that become functions, loops, comprehensions or scans."""
