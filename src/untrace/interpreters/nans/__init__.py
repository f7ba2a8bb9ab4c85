"""`untrace.nan_origin`: which equation first makes a NaN, and why."""
