"""Programs that call public packages, written by people who are not us.

A file for each field holds cases: a few lines that call a package as its own examples,
tests and README call it. Packages are imported by the case that needs them, so that the
table can be read where they are not installed.
"""
