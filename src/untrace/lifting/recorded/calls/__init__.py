"""One recorded call as text: operators, arguments, callables, rules, regions."""
