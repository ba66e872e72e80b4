"""Models with one planted fault each, and healthy ones, as an engineer's own module that the command line loads."""

import torch
from torch import Tensor, nn


def vanishing() -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(50):
        layers += [nn.Linear(16, 16), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(16, 1))


class Exploding(nn.Module):
    """A recurrence whose matrix doubles the state."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent, self.enter, self.head = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 1)
        nn.init.orthogonal_(self.recurrent.weight, 2.0)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(x.shape[0], 16)
        for step in x.unbind(1):
            state = self.recurrent(state) + self.enter(step)
        return self.head(state)


def healthy() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))


def dead() -> nn.Module:
    model = healthy()
    nn.init.constant_(model[2].bias, -100.0)
    return model


class Masked(nn.Module):
    """The root of a negative number, masked after the root."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(16, 16), nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        return self.head(torch.where(y > 0, y.sqrt(), 0.0))


class Square(torch.autograd.Function):
    """x², whose backward forgets the 2."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x


class Squared(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Square.apply(x)


def wrong() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 16), nn.Sequential(nn.Tanh(), Squared()), nn.Linear(16, 1))


def frozen() -> nn.Module:
    model = healthy()
    model[2].requires_grad_(False)
    return model


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


def batch() -> tuple[Tensor, Tensor]:
    return torch.randn(8, 16), torch.randn(8, 1)


def sequences() -> tuple[Tensor, Tensor]:
    return torch.randn(8, 12, 16), torch.randn(8, 1)


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
