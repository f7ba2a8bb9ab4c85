"""What writes text has no way of its own for strings: it asks `quote`, `comment` and the like.

A string literal that is put together by hand, or the `repr` of something that came from
outside, is where code gets into a file. Whoever needs one of the ways below says here why
nothing can come in by it.
"""

import ast
from collections import Counter
from pathlib import Path

import untrace

ROOT = Path(untrace.__file__).parent
WRITERS = ["capture", "cli", "emission", "lifting", "recovery", "syntax"]
FILES = [
    *(path for name in WRITERS for path in sorted((ROOT / name).rglob("*.py"))),
    *sorted(ROOT.glob("*.py")),
    *(
        (ROOT / "reduction" / "keeping" / f"{n}.py")
        for n in ("scripts", "costs", "contents")
    ),
]
KEY = "it is compared, not written"
READ = "what is written already is looked at"
NUMBER = "a number of exactly this type"
SAFE = "a regular expression let in nothing but words"
MESSAGE = "a message, which is made printable where it is shown"
OWN = "the text in quotes is one of ours"
LETTERS = "letters that we choose"
USER = "what the user of the reducer asks for, on his own command line"

ALLOWED: dict[tuple[str, str], tuple[int, str]] = {
    # the ways themselves
    ("syntax/names.py", "is_name"): (1, "the way for names"),
    ("syntax/text.py", "quote"): (1, "the way for strings"),
    ("syntax/text.py", "comment"): (1, "the way for comments"),
    ("syntax/text.py", "kept_docstring"): (1, "the way for docstrings"),
    ("syntax/text.py", "_triple_quoted"): (1, "the way for docstrings"),
    # numbers
    ("capture/dict_keys.py", "quoted"): (1, NUMBER),
    ("lifting/example_kinds.py", "_covariances"): (1, NUMBER),
    ("lifting/example_kinds.py", "number"): (1, NUMBER),
    ("lifting/idioms/domains.py", "shape_text"): (1, NUMBER),
    ("lifting/idioms/domains.py", "_sections"): (1, NUMBER),
    ("lifting/idioms/domains.py", "_bounds"): (1, NUMBER),
    ("lifting/idioms/domains.py", "_padding_text"): (1, NUMBER),
    ("lifting/idioms/domains.py", ""): (1, NUMBER),
    ("lifting/recorded/calls/scalars.py", "scalar_of"): (1, NUMBER),
    ("lifting/recorded/numbers/number_texts.py", "_with_exponent"): (1, NUMBER),
    ("lifting/spelling/base.py", ""): (1, NUMBER),
    ("lifting/spelling/numbers.py", "spell_float"): (2, NUMBER),
    ("lifting/spelling/numbers.py", "_shortest"): (3, NUMBER),
    ("lifting/spelling/values.py", "_spell_int"): (1, NUMBER),
    ("lifting/spelling/values.py", "_spell_tuple"): (1, NUMBER),
    ("lifting/spelling/values.py", "_spell_elements"): (1, NUMBER),
    ("recovery/defaults.py", "nested_defaults"): (1, NUMBER),
    ("recovery/defaults.py", "_written_defaults"): (1, NUMBER),
    ("recovery/formulas.py", "formulas"): (8, NUMBER),
    ("recovery/formulas.py", "_literals"): (1, NUMBER),
    ("recovery/formulas.py", "_variable"): (2, NUMBER),
    ("recovery/numbers.py", ""): (2, NUMBER),
    # keys
    ("lifting/alike_inputs.py", "AlikeInputs._made"): (1, KEY),
    ("lifting/idioms/regions.py", "_constant"): (1, KEY),
    ("lifting/idioms/regions.py", "_operand"): (1, KEY),
    ("lifting/idioms/regions.py", "_param"): (1, KEY),
    ("lifting/lines/alike.py", "_line"): (1, KEY),
    ("lifting/literals.py", "_bits"): (1, KEY),
    ("lifting/recorded/numbers/formulas.py", "_variable"): (2, KEY),
    ("recovery/functions.py", "function_key"): (1, KEY),
    ("lifting/recorded/functions/function_values.py", "mark"): (1, KEY),
    ("lifting/recorded/functions/held_values.py", "_mark"): (1, KEY),
    ("lifting/recorded/functions/own_calls.py", "_count_given"): (2, KEY),
    ("lifting/recorded/functions/run_keys.py", "_Keys._call"): (2, KEY),
    ("lifting/recorded/naming/values.py", "_key_of_node"): (1, KEY),
    ("lifting/rules/table.py", "exact_key"): (1, KEY),
    ("lifting/spelling/records.py", "_is_default"): (2, KEY),
    ("lifting/recorded/numbers/numbers.py", "Numbers.term"): (1, KEY),
    ("lifting/recorded/repeats/first_turns.py", "_begin"): (2, KEY),
    ("recovery/numbers.py", "number_key"): (1, KEY),
    ("recovery/numbers.py", "_key"): (1, KEY),
    ("recovery/quoting.py", "_constant"): (1, KEY),
    ("lifting/idioms/candidates.py", "_public_functions"): (
        1,
        "a function that JAX has",
    ),
    ("lifting/recorded/functions/held_numbers.py", "_given"): (1, READ),
    ("lifting/recorded/functions/returned.py", "_is_word"): (1, READ),
    ("lifting/recorded/naming/second_names.py", "_is_shape"): (1, READ),
    ("lifting/recorded/functions/annotations.py", "_size"): (2, "identifiers alone"),
    # strings of f-strings
    ("lifting/blocks/batching_rules.py", "_rule"): (1, "an identifier"),
    ("lifting/alike_parts.py", "_turns"): (2, SAFE),
    ("lifting/recorded/repeats/loop_headers.py", "Header._item_of_tuple"): (1, NUMBER),
    ("lifting/recorded/repeats/loop_headers.py", "Header.key"): (1, SAFE),
    ("lifting/recorded/repeats/loop_headers.py", "Header.word"): (1, SAFE),
    ("lifting/recorded/repeats/loop_headers.py", "Header._made_word"): (1, SAFE),
    ("lifting/recorded/repeats/loop_headers.py", "Header._strided_word"): (1, SAFE),
    # strings of ours
    ("lifting/idioms/arrays.py", ""): (1, OWN),
    ("lifting/idioms/indexing.py", ""): (1, OWN),
    ("lifting/idioms/domains.py", "_subscripts"): (2, LETTERS),
    ("lifting/idioms/windows.py", "_convolution"): (1, LETTERS),
    ("lifting/idioms/windows.py", "_paddings"): (1, OWN),
    # messages and scripts
    ("reducing.py", "reduce"): (1, MESSAGE),
    ("capture/outline.py", "statics"): (1, MESSAGE),
    ("drop_in.py", "_expect"): (2, MESSAGE),
    ("lifting/contexts.py", "settings_notes"): (1, "a note, which is made printable"),
    ("static_check.py", "check_file"): (1, MESSAGE),
    ("static_check.py", "_Checker._about"): (1, MESSAGE),
    ("terminal.py", "journal_runs"): (3, MESSAGE),
    ("checks.py", "check_options"): (1, MESSAGE),
    ("checks.py", "_check_choice"): (1, MESSAGE),
    ("checks.py", "_check_annotate"): (3, MESSAGE),
    ("checks.py", "_check_symbolic"): (1, MESSAGE),
    ("checks.py", "_check_anonymous"): (1, MESSAGE),
    ("cli/arguments.py", "_Reader.keyword"): (1, "a name is looked for, not written"),
    ("cli/arguments.py", "_Reader.take"): (1, MESSAGE),
    ("cli/calls.py", "evaluate"): (1, MESSAGE),
    ("cli/calls.py", "function_at"): (2, MESSAGE),
    ("cli/calls.py", "named_function"): (1, "a name is looked for, not written"),
    ("cli/calls.py", "_parsed"): (1, MESSAGE),
    ("cli/calls.py", "_evaluated"): (1, MESSAGE),
    ("idle.py", "_idle"): (2, "values that `check_options` knows"),
    ("idle.py", "_unexpanded"): (2, "values that `check_options` knows"),
    ("ipython.py", "shown"): (1, MESSAGE),
    ("ipython.py", "load_ipython_extension.untrace"): (1, MESSAGE),
    ("terminal.py", "_Doing.__str__"): (1, MESSAGE),
    ("result.py", "Source.printed"): (1, "an identifier, in a header"),
    ("recorded.py", "_written"): (1, MESSAGE),
    ("result.py", "Source._repr_pretty_"): (1, MESSAGE),
    ("reduction/keeping/contents.py", "Contains.__str__"): (1, MESSAGE),
    ("reduction/keeping/contents.py", "Command.__post_init__"): (1, MESSAGE),
    ("reduction/keeping/costs.py", "Memory.check_lines"): (2, USER),
    ("reduction/keeping/costs.py", "SlowCompile.check_lines"): (1, USER),
    ("reduction/keeping/scripts.py", "_same"): (1, USER),
    ("reduction/keeping/scripts.py", "comparison"): (1, USER),
    ("reduction/keeping/scripts.py", "env_lines"): (2, USER),
    ("reduction/keeping/scripts.py", "shortest_comparison"): (3, USER),
    ("reduction/keeping/scripts.py", "_numbers_differ"): (2, USER),
    ("reduction/keeping/scripts.py", "two_short_sides"): (2, USER),
    ("reduction/keeping/scripts.py", "two_sides"): (3, USER),
}


def _ways(tree: ast.AST, function: str = ""):
    """Yield the function and kind of everything that may write a string as code."""
    for node in ast.iter_child_nodes(tree):
        inner = function
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            inner = f"{function}.{node.name}".lstrip(".")
        if isinstance(node, ast.Name) and node.id in ("repr", "ascii"):
            yield inner, "repr"
        elif isinstance(node, ast.Attribute) and node.attr in (
            "__repr__",
            "isidentifier",
        ):
            yield inner, node.attr
        elif isinstance(node, ast.FormattedValue) and node.conversion in (
            ord("r"),
            ord("a"),
        ):
            yield inner, "conversion"
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and "%r" in node.value
        ):
            yield inner, "percent"
        elif isinstance(node, ast.JoinedStr):
            yield from ((inner, kind) for kind in _by_hand(node))
        yield from _ways(node, inner)


def _by_hand(node: ast.JoinedStr):
    """Yield what an f-string puts in quotes, or behind a `#`."""
    for before, part in zip(node.values, node.values[1:]):
        if not isinstance(before, ast.Constant) or isinstance(part, ast.Constant):
            continue
        text = before.value
        if text.endswith(('"', "'")) or text.count('"') % 2:
            yield "quotes"
        if text.lstrip().startswith("#") or "  #" in text:
            yield "comment"


def _found(path: Path) -> Counter:
    place = str(path.relative_to(ROOT))
    tree = ast.parse(path.read_text())
    return Counter((place, function) for function, _ in _ways(tree))


def test_every_way_into_the_text_is_known():
    found = sum(map(_found, FILES), Counter())
    assert dict(found) == {place: n for place, (n, _) in ALLOWED.items()}
