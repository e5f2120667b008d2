"""Count what there is to read: lines, modules, imports, and files on the way of a call.

One run of one machine is enough: nothing here is a time. A *hop* is a change of file over the
project's functions in the order of their first call. Calls are traced on iris, with one epoch.
"""

import ast
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

SOURCE = Path(__file__).parents[1] / "src" / "erasable"


@dataclass
class Lines:
    """Lines of some modules, by what they are."""

    modules: int = 0
    code: int = 0
    docstring: int = 0
    imports: int = 0
    rest: int = 0
    longest: int = 0

    def add(self, path: Path) -> None:
        """Count the lines of one module."""
        text = path.read_text()
        tree, lines = ast.parse(text), text.splitlines()
        docstrings = set(_docstring_lines(tree))
        imports = {n for node in ast.walk(tree) for n in _import_lines(node)}
        blank = {n for n, line in enumerate(lines, 1) if not line.strip() or line.strip()[0] == "#"}
        taken = docstrings | imports
        self.modules += 1
        self.docstring += len(docstrings)
        self.imports += len(imports)
        self.rest += len(blank - taken)
        self.code += len(lines) - len(taken | blank)
        self.longest = max(self.longest, len(lines))

    @property
    def total(self) -> int:
        """All lines."""
        return self.code + self.docstring + self.imports + self.rest


@dataclass
class Trace:
    """The project's functions in the order of their first call."""

    files: list[str] = field(default_factory=list)
    seen: set[tuple[str, int]] = field(default_factory=set)

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Note a function the first time that it is called."""
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)):
            key = (code.co_filename, code.co_firstlineno)
            if key not in self.seen:
                self.seen.add(key)
                self.files.append(code.co_filename)

    @property
    def hops(self) -> int:
        """How often the next function stands in another file."""
        return sum(a != b for a, b in zip(self.files, self.files[1:], strict=False))


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def _import_lines(node: ast.AST) -> Iterator[int]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def module_name(path: Path) -> str:
    """Return the dotted name of a module, without the package's own name."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def folder_of(module: str) -> str:
    """Return the top folder of a module."""
    is_inside = "." in module or (bool(module) and (SOURCE / module).is_dir())
    return module.split(".")[0] if is_inside else "(root)"


def imported(path: Path, known: set[str], *, late: bool) -> Iterator[str]:
    """Yield the project's modules that a module imports; ``late``: also inside functions."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree) if late else tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("erasable"):
            base = (node.module or "").removeprefix("erasable").removeprefix(".")
            for name in node.names:
                inner = f"{base}.{name.name}".strip(".")
                yield inner if inner in known else base


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return groups of names that import each other, the largest first."""
    order: list[str] = []
    reach: dict[str, set[str]] = {}
    for start in edges:
        found, left = set(), [start]
        while left:
            for there in edges.get(left.pop(), ()):
                if there not in found:
                    found.add(there)
                    left.append(there)
        reach[start] = found
    groups: list[list[str]] = []
    for name in edges:
        if name in order or name not in reach[name]:
            continue
        group = sorted(one for one in reach[name] if name in reach.get(one, set()))
        order += group
        groups.append(group)
    return sorted((group for group in groups if len(group) > 1), key=len, reverse=True)


def traced(call: Callable[[], Any]) -> Trace:
    """Return the functions of the project that a call runs."""
    trace = Trace()
    sys.setprofile(trace)
    try:
        call()
    finally:
        sys.setprofile(None)
    return trace


def calls() -> Iterator[tuple[str, Trace]]:
    """Yield what each verb of an estimator runs through."""
    from sklearn.datasets import load_iris

    from erasable import SPMClassifier, audit, load

    X, y = load_iris(return_X_y=True)
    folder = Path(tempfile.mkdtemp()) / "model"
    SPMClassifier(epochs=1, random_state=0).fit(X, y).predict_proba(X)  # imports are not counted
    model = SPMClassifier(epochs=1, random_state=0)
    yield "fit", traced(lambda: model.fit(X, y))
    yield "predict_proba", traced(lambda: model.predict_proba(X))
    yield "votes", traced(lambda: model.votes(X))
    yield "forget", traced(lambda: model.forget(ids=[0]))
    yield "save", traced(lambda: model.save(folder))
    yield "load", traced(lambda: load(folder))
    yield "audit", traced(lambda: audit(model))


def tracked() -> tuple[int, int]:
    """Return the number of tracked files, and their bytes."""
    root = SOURCE.parents[1]
    command = ["git", "-C", str(root), "ls-files", "-z"]
    names = subprocess.run(command, capture_output=True, check=True).stdout.split(b"\0")  # noqa: S603 - fixed words
    paths = [root / name.decode() for name in names if name]
    return len(paths), sum(path.stat().st_size for path in paths if path.is_file())


def page() -> Iterator[str]:
    """Yield the lines of the table."""
    paths = sorted(SOURCE.rglob("*.py"))
    known = {module_name(path) for path in paths}
    folders: dict[str, Lines] = defaultdict(Lines)
    edges: dict[str, set[str]] = {}
    late: dict[str, set[str]] = {}
    for path in paths:
        name = module_name(path)
        folders[folder_of(name)].add(path)
        folders["all"].add(path)
        edges[name] = set(imported(path, known, late=False)) & known - {name}
        late[name] = set(imported(path, known, late=True)) & known - {name}
    yield "| folder | modules | lines | code | docstrings | imports | longest |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for name, found in sorted(folders.items(), key=lambda item: item[1].total):
        figures = (found.total, found.code, found.docstring, found.imports, found.longest)
        yield f"| `{name}` | {found.modules} | {' | '.join(f'{one:,}' for one in figures)} |"
    between = {(folder_of(a), folder_of(b)) for a, there in edges.items() for b in there} - {
        (one, one) for one in folders
    }
    by_folder: dict[str, set[str]] = defaultdict(set)
    for start, there in between:
        by_folder[start].add(there)
    yield ""
    rings = ["/".join(ring) for ring in cycles(by_folder)]
    yield f"- Imports between folders: {len(between)}; cycles: {', '.join(rings) or 'none'}."
    for words, graph in (("imported", edges), ("imported, late imports included", late)):
        sizes = [str(len(ring)) for ring in cycles(graph)]
        yield f"- Cycles of modules when {words}, by size: {', '.join(sizes) or 'none'}."
    count, size = tracked()
    yield f"- Tracked files: {count:,}, with {size / 1e6:.1f} MB."
    yield ""
    yield "| call | files | functions | hops |"
    yield "|---|---:|---:|---:|"
    for name, trace in calls():
        yield f"| `{name}` | {len(set(trace.files))} | {len(trace.files)} | {trace.hops} |"


if __name__ == "__main__":
    print("\n".join(page()))
