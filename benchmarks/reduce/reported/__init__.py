"""Failures from issue trackers, as a user would meet them; see `__main__`."""
