"""Ways in besides tracing: texts and objects that hold a program are read as jaxprs.

One file or folder a format, none of which knows another; `formats.py` lists them.
"""
