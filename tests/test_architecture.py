"""The layout is the data flow: a room imports only the rooms above it, and every module is reached."""

import ast
import functools
import re
import tomllib
from pathlib import Path

import pytest

from pvn.systems import SYSTEMS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "pvn"
ROOMS = """
    checks compiling paths geometry files processes world simulator rollout corpus model learning systems training
    evaluation bridges viz app cli
""".split()


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in PACKAGE.rglob("*.py")}


@functools.cache
def parsed(path):
    return ast.parse(path.read_text())


@functools.cache
def imports(path, *, only_top_level=False):
    """Modules of ours that a file imports: anywhere in it, or at its top alone."""
    found = set()
    for node in parsed(path).body if only_top_level else ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name in MODULES and name != "pvn"}


def room(module):
    return module.split(".")[1]


def test_a_room_imports_only_rooms_above_it():
    for module, path in MODULES.items():
        if module == "pvn":
            continue
        for imported in imports(path):
            assert ROOMS.index(room(imported)) <= ROOMS.index(room(module)), (
                f"{module} imports {imported}, a room below; move what it needs up, or move {module} down"
            )


def test_neither_bridge_imports_the_other():
    """What both need is in pvn/bridges/shared, or beside it."""
    for own, other in (("airsim", "mavlink"), ("mavlink", "airsim"), ("shared", "airsim"), ("shared", "mavlink")):
        for module in MODULES:
            if module.startswith(f"pvn.bridges.{own}"):
                reached = {name for name in reached_from(module) if name.startswith(f"pvn.bridges.{other}")}
                assert not reached, f"{module} imports {reached}; move what it needs to pvn/bridges/shared"


def test_other_rooms_import_of_the_bridges_only_what_the_package_names():
    """Scripts outside the package, too: what lies below `pvn.bridges` may change at any time."""
    scripts = [path for folder in ("runs", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    others = [path for name, path in MODULES.items() if not name.startswith("pvn.bridges")]
    for path in [*others, *scripts]:
        below = {name for name in imports(path) if name.startswith("pvn.bridges.")}
        assert not below, f"{path} imports {below}; name what it needs in pvn/bridges/__init__.py"


def test_no_import_cycles():
    done = set()

    def visit(module, trail):
        assert module not in trail, f"import cycle: {' -> '.join([*trail, module])}"
        if module not in done:
            for imported in imports(MODULES[module]):
                visit(imported, [*trail, module])
            done.add(module)

    for module in MODULES:
        visit(module, [])


def reached_from(*modules, **options):
    """All modules that are imported, directly or through others, without the docstrings of packages."""
    reached, waiting = set(), list(modules)
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += imports(MODULES[module], **options)
    return {module for module in reached if MODULES[module].name != "__init__.py"}


def test_every_module_is_reached_from_the_command_line_or_the_environment():
    modules = {name for name, path in MODULES.items() if path.name != "__init__.py"}
    reached = reached_from("pvn.cli.__main__", "pvn.simulator.environment")
    assert modules - reached == set(), "unreachable modules are dead code"


def test_a_reader_of_the_training_follows_at_most_45_modules():
    """Imports inside functions count. The simulator is passed in, and the corpus is made and prepared before."""
    assert len(reached_from("pvn.learning.fit")) <= 45


def test_rooms_up_to_evaluation_do_without_gymnasium_and_viewers():
    """Training machines may lack them."""
    heavy = re.compile(r"^\s*(?:import|from) (gymnasium|tyro|viser|rerun|imageio)", re.MULTILINE)
    allowed = {"pvn", "pvn.simulator.environment"}
    for module, path in MODULES.items():
        if module not in allowed and room(module) not in ("viz", "app", "cli"):
            assert not heavy.search(path.read_text()), module


def test_processes_that_make_a_corpus_start_without_torch():
    """It takes longer to import than everything else that they need."""
    torch = re.compile(r"^(?:import|from) torch", re.MULTILINE)
    for module in reached_from("pvn.corpus.narrator.making", "pvn.processes", only_top_level=True):
        assert not torch.search(MODULES[module].read_text()), module


def test_the_readme_tree_is_the_tree_on_disk():
    tree = re.search(r"```\nsrc/pvn/\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert tree, "README.md shows the package as a tree"
    named = re.findall(r"^  (\w+)(?:/|\.py)", tree[1], re.MULTILINE)
    assert named == ROOMS


def test_modules_stay_readable_in_one_sitting():
    for path in PACKAGE.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 450, path


def test_every_data_file_is_in_the_wheel():
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["pvn"]
    packed = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    files = {path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {path for path in files if path.suffix != ".py"} == packed, "package-data in pyproject.toml"
    assert all(list(PACKAGE.glob(pattern)) for pattern in patterns)


@pytest.mark.long
def test_a_system_is_named_in_the_table_and_in_its_own_file_alone():
    """So that a new one is a row, or a row and a file."""
    named = re.compile(r"\b(" + "|".join(sorted(set(SYSTEMS) - {"pvn", "stop", "average", "oracle"})) + r")\b")
    allowed = {"pvn.systems", "pvn.model.gsmn", "pvn.model.chaplot"}
    for module in MODULES.keys() - allowed:
        tree = parsed(MODULES[module])
        parts = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
        prose = {id(part.value) for node in parts for part in node.body if isinstance(part, ast.Expr)}
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
            assert not (is_text and named.search(node.value)), f"{module}: {node.value!r}"
