"""What a page sets, the next page does not see: each setting that isolation.py names, one by one and all together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from doccheck import isolation
from doccheck.page import load
from doccheck.run import run
from tests.doccheck.workbench import page

SETUP = """\
import gc, locale, logging, os, random, signal, sys, threading, warnings
import matplotlib.pyplot
import numpy
import torch
"""
# What a page does, and how to see it.
SETTINGS = {
    "dtype": ("torch.set_default_dtype(torch.float64)", "torch.get_default_dtype()"),
    "device": ("torch.set_default_device('meta')", "torch.get_default_device()"),
    "grad mode": ("torch.set_grad_enabled(False)", "torch.is_grad_enabled()"),
    "anomaly mode": ("torch.autograd.set_detect_anomaly(True)", "torch.is_anomaly_enabled()"),
    "anomaly check": ("torch.set_anomaly_enabled(True, False)", "torch.is_anomaly_check_nan_enabled()"),
    "multithreading": ("torch._C._set_multithreading_enabled(False)", "torch._C._is_multithreading_enabled()"),
    "warn always": ("torch.set_warn_always(False)", "torch.is_warn_always_enabled()"),
    "threads": ("torch.set_num_threads(torch.get_num_threads() + 1)", "torch.get_num_threads()"),
    "matmul": ("torch.set_float32_matmul_precision('medium')", "torch.get_float32_matmul_precision()"),
    "matmul, by the new interface": (
        "torch.backends.cuda.matmul.fp32_precision = 'tf32'",
        "torch.backends.cuda.matmul.fp32_precision",
    ),
    "convolutions": ("torch.backends.cudnn.conv.fp32_precision = 'ieee'", "torch.backends.cudnn.conv.fp32_precision"),
    "torch's draws": ("torch.rand(1)", "torch.initial_seed(), hash(torch.get_rng_state().numpy().tobytes())"),
    "torch's seed": ("torch.manual_seed(1)", "torch.initial_seed()"),
    "determinism": ("torch.use_deterministic_algorithms(True)", "torch.get_deterministic_debug_mode()"),
    "fill": (
        "torch.utils.deterministic.fill_uninitialized_memory = False",
        "torch.utils.deterministic.fill_uninitialized_memory",
    ),
    "print options": ("torch.set_printoptions(precision=2)", "torch._tensor_str.PRINT_OPTS.precision"),
    "numpy's print options": ("numpy.set_printoptions(precision=2)", "numpy.get_printoptions()['precision']"),
    "numpy's errors": ("numpy.seterr(all='raise')", "numpy.geterr()"),
    "forward hooks": (
        "torch.nn.modules.module.register_module_forward_hook(print)",
        "len(torch.nn.modules.module._global_forward_hooks)",
    ),
    "backward hooks": (
        "torch.nn.modules.module.register_module_full_backward_hook(print)",
        "len(torch.nn.modules.module._global_backward_hooks), torch.nn.modules.module._global_is_full_backward_hook",
    ),
    "attention": ("torch.backends.cuda.enable_flash_sdp(False)", "torch.backends.cuda.flash_sdp_enabled()"),
    "saved tensors": (
        "torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t).__enter__()",
        "torch._C._autograd._top_saved_tensors_default_hooks(True) is None",
    ),
    "function modes": (
        "torch.overrides.BaseTorchFunctionMode().__enter__()",
        "torch._C._len_torch_function_stack() - (torch.get_default_device().type != 'cpu')",
    ),
    "dispatch modes": (
        "torch.utils._python_dispatch.BaseTorchDispatchMode().__enter__()",
        "torch._C._len_torch_dispatch_stack()",
    ),
    "forward levels": ("torch.autograd.forward_ad.enter_dual_level()", "torch.autograd.forward_ad._current_level"),
    "autocast": ("torch.set_autocast_enabled('cpu', True)", "torch.is_autocast_enabled('cpu')"),
    "a function in another's place": ("torch.relu = torch.sigmoid", "torch.relu.__name__"),
    "a method in another's place": ("torch.Tensor.__repr__ = torch.Tensor.size", "torch.Tensor.__repr__.__name__"),
    "a method that is gone": ("del torch.nn.Module.cuda", "hasattr(torch.nn.Module, 'cuda')"),
    "a new builtin": ("import builtins; builtins.shared = 1", "hasattr(__import__('builtins'), 'shared')"),
    "breakpoints": (
        "import pdb; sys.breakpointhook = pdb.set_trace = print",
        "sys.breakpointhook is print, __import__('pdb').set_trace is print",
    ),
    "early stop": (
        "torch.utils.checkpoint._enable_checkpoint_early_stop = False",
        "torch.utils.checkpoint._enable_checkpoint_early_stop",
    ),
    "swapped parameters": (
        "torch.__future__.set_swap_module_params_on_conversion(True)",
        "torch.__future__.get_swap_module_params_on_conversion()",
    ),
    "sparse checks": (
        "torch.sparse.check_sparse_tensor_invariants.enable()",
        "torch.sparse.check_sparse_tensor_invariants.is_enabled()",
    ),
    "denormals": (
        "torch.set_flush_denormal(True)",
        "(torch.full((1,), 1e-40, dtype=torch.float32, device='cpu') * 1).item() == 0",
    ),
    "exits": ("os._exit = print", "os._exit.__name__"),
    "decimals": ("import decimal; decimal.getcontext().prec = 3", "__import__('decimal').getcontext().prec"),
    "threads' errors": ("threading.excepthook = print", "threading.excepthook is print"),
    "threads' turns": ("sys.setswitchinterval(0.5)", "sys.getswitchinterval()"),
    "cudnn": ("torch.backends.cudnn.benchmark = True", "torch.backends.cudnn.benchmark"),
    "reductions": (
        "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False",
        "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
    ),
    "random": ("random.random()", "hash(random.getstate())"),
    "numpy's draws": ("numpy.random.rand()", "numpy.random.get_state()[2], int(numpy.random.get_state()[1][0])"),
    "recursion": ("sys.setrecursionlimit(2345)", "sys.getrecursionlimit()"),
    "stack": ("threading.stack_size(2**20)", "threading.stack_size()"),
    "collector": ("gc.disable()", "gc.isenabled()"),
    "collector's threshold": ("gc.set_threshold(123)", "gc.get_threshold()"),
    "collector's callbacks": ("gc.callbacks.append(lambda *_: None)", "len(gc.callbacks)"),
    "stdin": ("sys.stdin = None", "sys.stdin is None"),
    "excepthook": ("sys.excepthook = print", "sys.excepthook is print"),
    "arguments": ("sys.argv.append('x')", "len(sys.argv)"),
    "locale": ("locale.setlocale(locale.LC_NUMERIC, 'C.UTF-8')", "locale.setlocale(locale.LC_NUMERIC)"),
    "logging": ("logging.basicConfig(level=1, force=True, handlers=[logging.NullHandler()])", "logging.root.level"),
    "log handlers": ("logging.root.addHandler(logging.NullHandler())", "len(logging.root.handlers)"),
    "path": ("sys.path.append('x')", "'x' in sys.path"),
    "main": ("sys.modules['__main__'].added = 1", "hasattr(sys.modules['__main__'], 'added')"),
    "figures": ("matplotlib.pyplot.figure()", "matplotlib.pyplot.get_fignums()"),
    "matplotlib": ("matplotlib.rcParams['lines.linewidth'] = 9", "matplotlib.rcParams['lines.linewidth']"),
    "environment": ("os.environ['OF_A_PAGE'] = '1'", "os.environ.get('OF_A_PAGE')"),
    "signals": ("signal.signal(signal.SIGTERM, lambda *_: None)", "signal.getsignal(signal.SIGTERM)"),
    "folder": ("os.mkdir('new'); os.chdir('new')", "os.path.basename(os.getcwd()) == 'new'"),
    "files": ("open('of_a_page', 'w').close()", "os.path.exists('of_a_page')"),
    "warnings": ("warnings.simplefilter('ignore')", "len(warnings.filters)"),
}


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """What a test leaks on purpose ends with it."""
    with isolation.fresh("cpu", 0):
        yield


def printed(root: Path, code: str) -> list[str]:
    """What a page of one block prints, line by line."""
    text = "\n".join(f"    {line}" if line else "" for line in code.split("\n"))
    project = page(root, f"```python\n{SETUP}\n\ndef page():\n{text}\n\n\npage()\n```\n")
    done = run(project, load(project, project.docs / "page.md"), "cpu", 0)
    (result,) = done.results.values()
    assert result.output.raised is None, result.output.raised
    return result.output.printed.splitlines()


def outside(expression: str) -> str:
    names: dict[str, object] = {}
    exec(SETUP, names)
    try:
        return repr(eval(expression, names))
    except RuntimeError as error:  # torch refuses to tell where the old and the new interface were mixed
        return str(error)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_next_page_starts_anew(tmp_path: Path, name: str) -> None:
    action, reading = SETTINGS[name]
    before, process = printed(tmp_path, f"print(repr(({reading})))"), outside(reading)
    assert printed(tmp_path, f"{action}\nprint(repr(({reading})))") != before, "the test would see nothing"
    assert printed(tmp_path, f"print(repr(({reading})))") == before
    assert outside(reading) == process


def test_every_setting_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any one of its settings, isolation lets something through: the tests above would be red."""
    act = "\n".join(action for action, _ in SETTINGS.values())
    readings = [reading for _, reading in SETTINGS.values()]
    for setting in [None, *isolation.SETTINGS]:
        with isolation.fresh("cpu", 0), monkeypatch.context() as patch:
            before = [outside(reading) for reading in readings]
            patch.setattr(isolation, "SETTINGS", [kept for kept in isolation.SETTINGS if kept is not setting])
            printed(tmp_path, act)
            after = [outside(reading) for reading in readings]
            same = after == before
        assert same == (setting is None), [p for p in zip(SETTINGS, before, after, strict=True) if p[1] != p[2]]


def test_snippets_are_imported_anew(tmp_path: Path) -> None:
    text = "```python\nfrom snippets.page import seen\n\nseen.append(1)\nprint(seen)\n```\n\n```text\n[1]\n```\n"
    project = page(tmp_path, text, **{"snippets/page.py": "seen = []\n"})
    for _ in range(2):
        done = run(project, load(project, project.docs / "page.md"), "cpu", 0)
        assert done.first_failure is None, done.first_failure
