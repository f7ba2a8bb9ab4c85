"""Where two runs of a program part: what each computes, compared value by value."""
