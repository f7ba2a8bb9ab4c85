"""How readable the recovered source is: a corpus of programs and its scoring."""
