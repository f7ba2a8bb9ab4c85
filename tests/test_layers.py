"""Imports go down only, and only one package touches JAX's unstable API."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "untrace"
LAYERS = [
    {"folder", "objects"},
    {
        "jaxapi",
        "errors",
        "optional",
        "options",
        "parsing",
        "printable",
        "stages",
        "progress",
        "passes_watched",
        "_version",
    },
    {"ir", "syntax"},
    {"axes"},
    {"capture", "recovery", "readers"},
    {"lifting"},
    {"emission"},
    {"verification"},
    {
        "checking",
        "example_draws",
        "pipeline",
        "blame",
        "idiomatic",
        "recorded",
        "resizing",
        "probing",
        "symbolic",
        "anonymity",
        "drop_in",
        "pickled",
        "line_origins",
        "result",
        "saved",
        "saved_program",
        "highlight",
        "idle",
        "static_check",
        "static_tables",
        "extension",
    },
    {"interpreters"},
    {"reduction", "explorer"},
    {
        "__init__",
        "__main__",
        "api",
        "checks",
        "cli",
        "comparing",
        "recompiling",
        "ipython",
        "isolated",
        "keep",
        "loading",
        "terminal",
        "reducing",
        "torch_modules",
    },
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
UNSTABLE = ("jax._src", "jax.extend", "jax.interpreters")


def _modules():
    return sorted(ROOT.rglob("*.py"))


def _package(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def _imports(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "untrace":
                yield from (f"untrace.{alias.name}" for alias in node.names)
            else:
                yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down_only(path):
    package = _package(path)
    for name in _imports(path):
        if not name.startswith("untrace."):
            continue
        imported = name.split(".")[1]
        arrow = f"{path.relative_to(ROOT)} (layer {LEVEL[package]}) -> {name}"
        assert imported in LEVEL, f"{arrow}: no layer is named {imported}"
        assert imported == package or LEVEL[imported] <= LEVEL[package], arrow


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_only_jaxapi_touches_unstable_jax(path):
    if _package(path) == "jaxapi":
        return
    for name in _imports(path):
        assert not name.startswith(UNSTABLE), f"{path.name} imports {name}"
    for name in UNSTABLE:
        assert name not in path.read_text(), f"{path.name} says {name}"
    assert "__version__" not in path.read_text().replace(
        "import __version__", ""
    ).replace("{__version__}", "") or path.name in (
        "_version.py",
        "__init__.py",
    ), path.name


def test_syntax_knows_nothing_of_jax():
    for path in (ROOT / "syntax").glob("*.py"):
        assert not any(
            name.split(".")[0] in ("jax", "numpy") for name in _imports(path)
        )


def test_the_checker_shares_nothing_with_the_writer():
    """It decides what is the same by itself, so that it sees the faults of the writer."""
    known = {"jaxapi", "capture", "objects", "parsing", "printable", "syntax"}
    known.add("verification")
    for path in (ROOT / "verification").glob("*.py"):
        for name in _imports(path):
            if name.startswith("untrace."):
                assert name.split(".")[1] in known, f"{path.name} imports {name}"
        text = path.read_text()
        for shared in ("rule_identity", "jaxapi.array_key", "node_parts"):
            assert shared not in text, f"{path.name} uses {shared}"


def test_imports_of_files_make_no_circle():
    """Imports for the type checker and those inside functions count."""
    files = {_dotted(path): path for path in _modules()}
    arrows = {name: _imported(name, path, files) for name, path in files.items()}
    circles = [sorted(circle) for circle in _circles(arrows)]
    assert not circles, (
        f"these files import each other: {circles}; what is recursive goes through one "
        "object that the topmost file is given (as `Forms` of recorded/writer.py)"
    )


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(name: str, path: Path, files: dict[str, Path]) -> set[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = package.split(".")[: len(package.split(".")) - node.level + 1]
            start = around if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            inner = [f"{base}.{alias.name}" for alias in node.names]
            found.update(each if each in files else base for each in inner)
    return (found & files.keys()) - {name}


def _circles(arrows: dict[str, set[str]]) -> list[set[str]]:
    """Group files of which each leads to each other (by what is reached from where)."""
    reached: dict[str, set[str]] = {}
    for start in arrows:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for name in arrows[todo.pop()] - seen:
                seen.add(name)
                todo.append(name)
        reached[start] = seen
    circles = {
        frozenset(n for n in reached[name] if name in reached[n])
        for name in arrows
        if name in reached[name]
    }
    return [set(circle) for circle in circles]
