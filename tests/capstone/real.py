"""Language models from a config, with random weights and nothing downloaded, as a user's own module has them.

Healthy ones, and a GPT-2 with one fault each, planted as it happens by accident.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention, GPT2Block


def gpt2(**options: Any) -> GPT2LMHeadModel:
    sizes = {"vocab_size": 90, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 4}
    return GPT2LMHeadModel(GPT2Config(**{**sizes, "bos_token_id": 0, "eos_token_id": 0, **options}))


def small(**options: Any) -> GPT2LMHeadModel:
    return gpt2(**{"n_embd": 16, "n_head": 2, "vocab_size": 40, **options})


def wide() -> GPT2LMHeadModel:
    return gpt2(n_embd=128, n_layer=4)


def words() -> dict[str, Tensor]:
    tokens = torch.randint(0, 40, (2, 8))
    return {"input_ids": tokens, "labels": tokens}


def padded() -> dict[str, Tensor]:
    """The second sentence has 5 words; what is padded is no target."""
    batch = words()
    mask = torch.ones_like(batch["input_ids"])
    mask[1, 5:] = 0
    return {**batch, "attention_mask": mask, "labels": batch["labels"].masked_fill(mask == 0, -100)}


def _bert(**options: Any) -> BertConfig:
    sizes = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    return BertConfig(**{**sizes, "intermediate_size": 64, "max_position_embeddings": 16, **options})


def bert(**options: Any) -> BertForMaskedLM:
    return BertForMaskedLM(_bert(**options))


def classifier(**options: Any) -> BertForSequenceClassification:
    return BertForSequenceClassification(_bert(num_labels=3, **options))


def sentences() -> dict[str, Tensor]:
    return {**padded(), "labels": torch.tensor([0, 2])}


# Faults


class Plain(GPT2Block):
    """Somebody has tidied up, and the residual connections are gone."""

    def forward(self, hidden_states: Tensor, *args: Any, **named: Any) -> Tensor:
        mixed = self.attn(hidden_states, attention_mask=named.get("attention_mask"))[0]
        return self.mlp(mixed).tanh()


def vanishing() -> GPT2LMHeadModel:
    model = gpt2(n_layer=4)
    model.transformer.h = nn.ModuleList(Plain(model.config, layer_idx=k) for k in range(4))
    return model.apply(model._init_weights)


def exploding() -> GPT2LMHeadModel:
    """0.02 has lost its zeros, in the width of the initial weights."""
    return gpt2(initializer_range=2.0)


def dead() -> GPT2LMHeadModel:
    model = gpt2(activation_function="relu")
    nn.init.constant_(model.transformer.h[1].mlp.c_fc.bias, -10.0)
    return model


class Root(nn.Module):
    """An activation that is masked after its root."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x.sqrt(), 0.0)  # the NaN


def masked() -> GPT2LMHeadModel:
    model = gpt2()
    model.transformer.h[1].mlp.act = Root()
    return model


class SquaredReLU(torch.autograd.Function):
    """relu(x)², whose backward forgets the 2."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.relu()
        ctx.save_for_backward(y)
        return y * y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return g * y


class Squared(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return SquaredReLU.apply(x)


def wrong() -> GPT2LMHeadModel:
    model = gpt2()
    model.transformer.h[1].mlp.act = Squared()
    return model


class Scale(torch.autograd.Function):
    """x·s, whose backward takes the mean where the sum is right."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, s: Tensor) -> Tensor:
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        x, s = ctx.saved_tensors
        return g * s, (g * x).mean()


class ScaledAttention(GPT2Attention):
    """Called with positional and keyword arguments, as the block does."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, hidden_states: Tensor, *args: Any, **named: Any) -> Any:
        mixed, *more = super().forward(hidden_states, *args, **named)
        return Scale.apply(mixed, self.scale), *more


def wrong_attention() -> GPT2LMHeadModel:
    model = small()
    model.transformer.h[1].attn = ScaledAttention(model.config, layer_idx=1)
    return model


def frozen() -> GPT2LMHeadModel:
    model = gpt2(n_layer=3)
    model.transformer.h[1].requires_grad_(False)
    return model


def padding(model: nn.Module) -> Iterator[Tensor]:
    """Embeddings whose row 0 is padding."""
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.padding_idx == 0:
            yield module.weight
