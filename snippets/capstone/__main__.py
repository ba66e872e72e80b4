# SPDX-License-Identifier: 0BSD
"""`python -m snippets.capstone` is `autograd-debugger`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
