"""The red team: pairs of different programs that must be told apart.

Each module holds a table, a line for each pair; `pairs.py` says what a line means,
`holes.py` which pairs are not told apart yet, and `fields.py` makes one pair for every
field of the parameters of every primitive.
"""
