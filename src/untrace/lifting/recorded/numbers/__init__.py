"""Numbers as the program wrote them: constants, formulas, dimensions."""
