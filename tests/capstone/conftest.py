"""Small models run faster on one thread, above all beside other tests. Nothing is fetched from the network."""

import os
from collections.abc import Iterator

import pytest
import torch

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
os.environ["TRANSFORMERS_VERBOSITY"] = "error"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
