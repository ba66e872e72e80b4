"""Devices: tensors made inside a backward or a hook must say where, since default devices do not reach there."""

from __future__ import annotations

import ast
from pathlib import Path

from doccheck.places import Place, Problem
from doccheck.project import Project

FACTORIES = {
    "arange", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint", "randn", "randperm",
    "scalar_tensor", "tensor", "zeros",
}  # fmt: skip
INSIDE = ("backward", "vjp", "jvp")


def problems(project: Project, path: Path) -> list[Problem]:
    """Factory calls without `device=` in functions that autograd calls."""
    name = project.name(path)
    found = []
    for function in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if function.name not in INSIDE and "hook" not in function.name:
            continue
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and _is_factory(call) and not any(k.arg == "device" for k in call.keywords):
                made = ast.unparse(call.func)
                message = f"{made}() in {function.name} names no device"
                found.append(Problem(Place(name, call.lineno), message, "add device=, such as device=grad.device"))
    return sorted(set(found), key=lambda problem: problem.place)


def _is_factory(call: ast.Call) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "torch"
        and function.attr in FACTORIES
    )
