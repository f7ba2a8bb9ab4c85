"""How equations are solved for their operands: tables, one line per primitive."""
