# SPDX-License-Identifier: 0BSD
"""AutogradDebuggerSuite: a tool to point at one's own PyTorch model.

    from snippets.capstone import AutogradDebuggerSuite

    suite = AutogradDebuggerSuite(model, loss_fn)
    print(suite.profile_gradient_flow(inputs, targets))

The folder needs torch and the standard library, and can be copied.
"""

from .outputs import DebuggerError
from .suite import AutogradDebuggerSuite

__all__ = ["AutogradDebuggerSuite", "DebuggerError"]
