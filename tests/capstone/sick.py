"""What only the tests need beside `snippets.capstone.examples`: an engineer's own module, to be loaded by name."""

import torch
from torch import Tensor, nn

from snippets.capstone.examples import batch, healthy

__all__ = ["batch", "healthy"]


def dropout() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 16), nn.Dropout(), nn.Linear(16, 1))


class Named(nn.Module):
    """Paths, code and an error text that are markup."""

    def __init__(self) -> None:
        super().__init__()
        self.add_module("<b>&\"'", nn.Linear(16, 1).requires_grad_(False))
        self.other = nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.get_submodule("<b>&\"'")(x) + self.other(x)
        return y * torch.tensor(float("<script>" == "<script>") / 1).log().log()


class WithLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 1)

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        y = self.layer(x)
        return {"loss": (y - labels).square().mean(), "logits": y}


model = healthy()


def keywords() -> dict[str, Tensor]:
    return {"x": torch.randn(8, 16), "labels": torch.randn(8, 1)}


def narrow() -> tuple[Tensor, Tensor]:
    return torch.randn(8, 15), torch.randn(8, 1)


def raises() -> nn.Module:
    raise ValueError("no weights\nat all")


def leaves() -> nn.Module:
    raise SystemExit("bye")


def interrupted() -> nn.Module:
    raise KeyboardInterrupt


def chatty() -> nn.Module:
    print("loading…")
    return healthy()


def number() -> int:
    return 3


class Breaks(nn.Module):
    """Raises what is no usual error of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        raise OSError("disk\nfull")
