"""Stochastic gradient descent with a rate for each kind of weight."""

import torch
from torch import nn

from erasable.training._config import TrainingConfig
from erasable.training._training import Training

_NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm)


def make_optimizer(network: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Return SGD over the weights of a network that are trained; a group's rate has a factor."""
    in_encoder = _of(network, "encoder")
    in_fusion = _of(network, "fusion")
    in_head = in_fusion | _of(network, "head")
    own_rate = getattr(getattr(network, "fusion", None), "rate", 1.0)
    biases = {
        id(module.bias)
        for module in network.modules()
        if isinstance(module, _NORMS) and module.bias is not None
    }
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for parameter in network.parameters():
        if parameter.requires_grad:
            decay = config.how.weight_decay if parameter.ndim > 1 else 0.0
            factor = config.encoder_lr_factor if id(parameter) in in_encoder else 1.0
            factor *= config.how.head_rate if id(parameter) in in_head else 1.0
            if id(parameter) in in_fusion:
                factor, decay = factor * own_rate, decay / own_rate
            if id(parameter) in biases:
                factor *= config.how.bias_rate
                decay = _decay_of_biases(config.how)
            groups.setdefault((decay, factor), []).append(parameter)
    return torch.optim.SGD(
        [
            {"params": params, "weight_decay": decay, "factor": factor}
            for (decay, factor), params in groups.items()
        ],
        lr=config.learning_rate,
        momentum=config.how.momentum,
        nesterov=config.how.nesterov and config.how.momentum > 0,
    )


def _decay_of_biases(how: Training) -> float:
    """Return the penalty by which a step takes as much from biases as from kernels."""
    return 0.0 if how.bias_rate in (0, 1) else how.weight_decay / how.bias_rate


def _of(network: nn.Module, name: str) -> set[int]:
    part = getattr(network, name, None)
    return {id(p) for p in part.parameters()} if isinstance(part, nn.Module) else set()
