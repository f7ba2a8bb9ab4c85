"""`untrace.why_recompiled` and `watch_compiles`: in what two calls of a function differ."""
