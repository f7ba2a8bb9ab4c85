"""How much of a torch model's source comes back: its names, and how many tokens it takes."""

import ast
import io
import tokenize

from untrace.syntax.names import identifier  # which spells `input` as `input_`

MARKS = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}


def tokens(text):
    """The tokens of a program, without layout and docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_docstring(body[0]):
            body[0].value.value = ""
    read = tokenize.generate_tokens(io.StringIO(ast.unparse(tree)).readline)
    return [token.string for token in read if token.type not in MARKS]


def _is_docstring(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def functions(text, leave_out=("load_arrays", "load_weights", "example_args")):
    """The functions of a generated file, without those that only load arrays."""
    tree = ast.parse(text)
    kept = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name not in leave_out
    ]
    return "\n\n".join(map(ast.unparse, kept))


def model_source(text):
    """The classes and functions of a model's file, without its examples."""
    tree = ast.parse(text)
    kept = [
        node
        for node in tree.body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef))
        and not node.name.startswith("example")
    ]
    return "\n\n".join(map(ast.unparse, kept))


def names(text):
    """The arguments and variables of what runs: of `forward`, and of functions."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name not in NOT_RUN:
            found |= _own_names(node)
    return found - {"self", "_"}


NOT_RUN = ("__init__", "_make_layer", "precompute_freqs_cis")


def _own_names(function):
    args = function.args
    found = {arg.arg for arg in [*args.args, *args.kwonlyargs]}
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
    stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return found | (stored & read)  # what nobody reads is left out


def share_of_names(model, generated):
    """Which part of the names that hold tensors comes back."""
    wanted = {*map(identifier, names(model_source(model)) - integers(model))}
    missing = wanted - names(functions(generated))
    return 1 - len(missing) / len(wanted), sorted(missing)


def integers(model):
    """Names that hold Python numbers and modules: sizes, which the file writes as numbers."""
    found = set()
    for node in ast.walk(ast.parse(model)):
        if isinstance(node, ast.Assign) and _is_shape(node.value):
            for target in node.targets:
                found |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
        if isinstance(node, ast.For):
            found |= {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
    return found | {"start_pos"}


def _is_shape(value):
    if isinstance(value, ast.Subscript):  # x.shape[0]
        value = value.value
    text = ast.unparse(value)
    return text.endswith((".shape", ".size()")) or ".size(" in text or "diff" in text


def ratio_of_tokens(model, generated):
    """The tokens of the generated functions by those of the model."""
    return len(tokens(functions(generated))) / len(tokens(model_source(model)))
