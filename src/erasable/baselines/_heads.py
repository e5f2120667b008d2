"""The last layer of a classifier, wherever it hangs."""

from torch import nn

from erasable.errors import ArgumentError


def head_of(network: nn.Module, count: int) -> tuple[str, nn.Linear]:
    """Return the path and the module of the linear layer that has an output per class.

    Args:
        network: A classifier.
        count: Number of classes.
    """
    found = [
        (name, module)
        for name, module in network.named_modules()
        if isinstance(module, nn.Linear) and module.out_features == count
    ]
    if not found or not found[-1][0]:
        raise ArgumentError(
            f"Expected a network that ends in a linear layer with {count} outputs inside a module, "
            "but there is none."
        )
    return found[-1]


def replace_head(network: nn.Module, path: str, head: nn.Linear) -> None:
    """Put another linear layer in the place of the last one."""
    parent, _, name = path.rpartition(".")
    setattr(network.get_submodule(parent), name, head)
