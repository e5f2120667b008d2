"""Attempts to get ``exact`` through an encoder that is not a function of one input, or by a word.

An undeclared network has no weights here, so that nothing but its operations can give it away.
"""

import collections
import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor, nn

from adversary.attempts import attempt, outcome
from erasable import KNNClassifier, SPMClassifier, audit, convert, declare, load
from erasable.encoders import MLP, Identity, SmallCNN, build_encoder, cut, register_encoder

rng = np.random.default_rng(0)
X = rng.normal(size=(24, 4)).astype(np.float32)
Y = (np.arange(24) % 3).tolist()
IDS = [f"row-{place}" for place in range(24)]


def remembered(encoder: Any, **options: Any) -> SPMClassifier:
    """Return a model of rows that nobody trained on."""
    return SPMClassifier(encoder, **options).remember(X, Y, ids=IDS)


def level(model: Any, row: str = "row-0") -> str:
    """Return the level at which a row is forgotten."""
    return str(model.forget(ids=[row]).level)


def word(encoder: Any, **options: Any) -> str:
    """Return the level that rows of a new model with an encoder have, or ``refused``."""
    return outcome(lambda: level(remembered(encoder, **options)))


def linear(seed: int = 0) -> nn.Sequential:
    """Return a network as a user would bring it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6))


def trained(**options: Any) -> SPMClassifier:
    """Return a model whose encoder was trained on the rows."""
    settings = {"encoder": "mlp", "epochs": 1, "random_state": 0, **options}
    return SPMClassifier(**settings).fit(X, Y, ids=IDS)


# -- torch's own layers, undeclared ----------------------------------------------------------------


@attempt(
    "Encode by batch normalisation without running statistics, which mixes the rows of a batch",
    before="exact",
    now="refused",
)
def normalise_by_the_batch(folder: Path) -> str:
    return word(nn.BatchNorm1d(4, affine=False, track_running_stats=False))


@attempt(
    "Encode by a softmax over the rows of a batch",
    before="exact",
    now="refused",
)
def softmax_over_the_rows(folder: Path) -> str:
    return word(nn.Softmax(dim=0))


@attempt(
    "Encode by a softmax over the rows of a batch, named from the end",
    before="exact",
    now="refused",
)
def softmax_over_the_rows_from_the_end(folder: Path) -> str:
    return word(nn.Sequential(nn.Flatten(), nn.LogSoftmax(dim=-2)))


@attempt(
    "Encode by attention that takes the rows of a batch for the words of a sentence",
    before="exact",
    now="refused",
)
def attend_to_the_rows(folder: Path) -> str:
    layer = nn.TransformerEncoderLayer(4, 2, dim_feedforward=8, batch_first=False)
    return word(declare(nn.Sequential(nn.Unflatten(1, (1, 4)), layer, nn.Flatten()), "public"))


@attempt(
    "Centre rows on their batch in a forward hook of a plain layer",
    before="exact",
    now="refused",
)
def centre_in_a_forward_hook(folder: Path) -> str:
    network = nn.Identity()
    network.register_forward_hook(lambda module, inputs, output: output - output.mean(0))
    return word(network)


@attempt(
    "Add a sum of the rows so far in a forward hook, which changes no weight",
    before="exact",
    now="refused",
)
def sum_up_rows_in_a_forward_hook(folder: Path) -> str:
    network, seen = nn.Identity(), torch.zeros(4)

    def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        seen.add_(output.sum(0))
        return output + seen

    network.register_forward_hook(hook)
    return word(network)


@attempt(
    "Change inputs in a hook that runs before a plain layer, by a mean that was taken from rows",
    before="exact",
    now="memory",
)
def shift_in_a_hook_before_the_layer(folder: Path) -> str:
    network, mean = nn.Identity(), torch.from_numpy(X.mean(axis=0))
    network.register_forward_pre_hook(lambda module, inputs: (inputs[0] - mean,))
    return word(network)


@attempt(
    "Train with a backward hook that keeps the gradients, and so the rows, of later batches",
    before="exact",
    now="memory",
)
def keep_gradients_in_a_backward_hook(folder: Path) -> str:
    network, kept = nn.Flatten(), []
    network.register_full_backward_hook(lambda module, inputs, outputs: kept.append(outputs))
    return word(network)


@attempt(
    "Register a hook of torch for all layers that centres rows on their batch",
    before="exact",
    now="refused",
)
def centre_in_a_hook_for_all_layers(folder: Path) -> str:
    def hook(module: nn.Module, inputs: Any, output: Any) -> Any:
        return output - output.mean(0) if isinstance(module, Identity) else None

    handle = nn.modules.module.register_module_forward_hook(hook)
    try:
        return word("identity")
    finally:
        handle.remove()


@attempt(
    "Register a hook for all layers while rows are remembered, and remove it before they go",
    before="exact",
    now="memory",
)
def take_a_hook_for_all_layers_back(folder: Path) -> str:
    def hook(module: nn.Module, inputs: Any, output: Any) -> Any:
        return output - output.mean(0) if isinstance(module, Identity) else None

    model = SPMClassifier("identity").remember(X[:3], Y[:3], ids=IDS[:3])
    handle = nn.modules.module.register_module_forward_hook(hook)
    try:
        model.remember(X[3:], Y[3:], ids=IDS[3:])
    finally:
        handle.remove()
    return level(model)


@attempt(
    "Replace the forward of a plain layer by a function that adds the mean of rows",
    before="exact",
    now="memory",
)
def replace_forward(folder: Path) -> str:
    network, mean = nn.Identity(), torch.from_numpy(X.mean(axis=0))
    network.forward = lambda inputs: inputs + mean  # type: ignore[method-assign]
    return word(network)


@attempt(
    "Replace the forward of a plain layer by a function that remembers rows in its closure",
    before="exact",
    now="refused",
)
def remember_rows_in_a_closure(folder: Path) -> str:
    network, seen = nn.Identity(), []

    def forward(inputs: Tensor) -> Tensor:
        seen.append(inputs.sum(0))
        return inputs + torch.stack(seen).sum(0)

    network.forward = forward  # type: ignore[method-assign]
    return word(network)


@contextmanager
def patched(kind: type, name: str, value: Any) -> Iterator[None]:
    """Put something in the place of a method while the block runs."""
    before = vars(kind)[name]
    setattr(kind, name, value)
    try:
        yield
    finally:
        setattr(kind, name, before)


def _centred(self: nn.Module, inputs: Tensor) -> Tensor:
    return inputs - inputs.mean(0)


@attempt(
    "Replace the forward of torch's class, not of the layer",
    before="exact",
    now="refused",
)
def replace_forward_on_torchs_class(folder: Path) -> str:
    with patched(nn.Identity, "forward", _centred):
        return word(nn.Identity())


@attempt(
    "Replace the forward of this library's class, not of the encoder",
    before="exact",
    now="refused",
)
def replace_forward_on_our_class(folder: Path) -> str:
    with patched(Identity, "forward", _centred):
        return word("identity")


@attempt(
    "Replace how any module of torch is called, while rows are remembered",
    before="exact",
    now="memory",
)
def replace_how_modules_are_called(folder: Path) -> str:
    def call(self: nn.Module, *args: Any, **options: Any) -> Any:
        output = self._call_impl(*args, **options)
        return output - output.mean(0) if isinstance(self, Identity) else output

    model = SPMClassifier("identity").remember(X[:3], Y[:3], ids=IDS[:3])
    with patched(nn.Module, "__call__", call):
        model.remember(X[3:], Y[3:], ids=IDS[3:])
    return level(model)


@attempt(
    "Replace a function of torch that an encoder calls",
    before="exact",
    now="refused",
)
def replace_a_function_of_torch(folder: Path) -> str:
    relu = nn.functional.relu
    nn.functional.relu = lambda inputs, inplace=False: relu(inputs - inputs.mean(0))
    try:
        return word("mlp")
    finally:
        nn.functional.relu = relu


@attempt(
    "Replace the forward of one of this library's encoders",
    before="exact",
    now="memory",
)
def replace_forward_of_an_encoder(folder: Path) -> str:
    model = SPMClassifier("identity").remember(X[:3], Y[:3], ids=IDS[:3])
    model.encoder_.forward = lambda inputs: inputs - inputs.mean(0)
    model.remember(X[3:], Y[3:], ids=IDS[3:])
    del model.encoder_.forward
    return level(model)


class Centring(Identity):  # type: ignore[misc]  # final
    """A subclass of one of this library's encoders."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs - inputs.mean(0)


@attempt("Bring a subclass of one of this library's encoders", before="exact", now="refused")
def subclass_an_encoder(folder: Path) -> str:
    Centring.__module__ = "erasable.encoders"
    return word(Centring((4,)))


@attempt(
    "Register an encoder of another class under a new name",
    before="exact",
    now="refused",
)
def register_a_subclass(folder: Path) -> str:
    Centring.__module__ = "erasable.encoders"
    from erasable.encoders import _registry

    known = dict(_registry._ENCODERS)
    register_encoder("centring", Centring)
    try:
        return word("centring")
    finally:
        _registry._ENCODERS.clear()
        _registry._ENCODERS.update(known)


@attempt(
    "Put a softmax over rows into a model that remembered rows without it, then remember more",
    before="exact",
    now="memory",
)
def replace_a_part_of_a_model(folder: Path) -> str:
    model = SPMClassifier(nn.Sequential(nn.Flatten(), nn.Identity()), normalize="none")
    model.remember(X[:3], Y[:3], ids=IDS[:3])
    model.encoder_.module[1] = nn.Softmax(dim=0)
    model.remember(X[3:], Y[3:], ids=IDS[3:])
    model.encoder_.module[1] = nn.Identity()
    return level(model)


@attempt(
    "Swap trained weights in while rows are remembered, and the drawn ones back before they go",
    before="exact",
    now="memory",
)
def swap_weights_for_a_moment(folder: Path) -> str:
    model = SPMClassifier("mlp", random_state=0).remember(X[:3], Y[:3], ids=IDS[:3])
    drawn = copy.deepcopy(model.encoder_.state_dict())
    model.encoder_.load_state_dict(trained().encoder_.state_dict())
    model.remember(X[3:], Y[3:], ids=IDS[3:], reinstate=True)
    model.encoder_.load_state_dict(drawn)
    return level(model)


# -- declared networks that keep something ---------------------------------------------------------


class Keeping(nn.Module):
    """A network that keeps a sum of what it encoded, in one way or another."""

    total = torch.zeros(4)

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.layer = nn.Linear(4, 4)
        self.kept: Any = {
            "tensor": torch.zeros(4),
            "list": [],
            "array": np.zeros(4, np.float32),
            "dict": {"sum": 0.0},
            "deque": collections.deque(maxlen=64),
        }.get(how)
        self.calls = 0

    def forward(self, inputs: Tensor) -> Tensor:
        seen = inputs.detach().sum(0)
        if self.how == "tensor":
            self.kept = self.kept + seen
        elif self.how in ("list", "deque"):
            self.kept.append(seen)
        elif self.how == "array":
            self.kept += seen.numpy()
        elif self.how == "dict":
            self.kept["sum"] += float(seen.sum())
        elif self.how == "class":
            Keeping.total = Keeping.total + seen
        elif self.how == "global":
            SEEN.append(seen)
        elif self.how == "buffer":
            self.register_buffer("late", seen)
        elif self.how == "second call":
            self.calls += 1
        elif self.how == "many rows" and len(inputs) > 20:
            self.kept = seen
        return self.layer(inputs)


SEEN: list[Tensor] = []


def _keep(how: str) -> str:
    return word(declare(Keeping(how), "a public source"))


@attempt("Keep a running sum of rows as a tensor", before="exact", now="refused")
def keep_rows_in_a_tensor(folder: Path) -> str:
    return _keep("tensor")


@attempt("Keep every row in a list", before="exact", now="refused")
def keep_rows_in_a_list(folder: Path) -> str:
    return _keep("list")


@attempt("Keep a running sum of rows in an array", before="exact", now="refused")
def keep_rows_in_an_array(folder: Path) -> str:
    return _keep("array")


@attempt("Keep a running sum of rows in a dict", before="exact", now="refused")
def keep_rows_in_a_dict(folder: Path) -> str:
    return _keep("dict")


@attempt("Keep the last rows in a queue", before="exact", now="refused")
def keep_rows_in_a_queue(folder: Path) -> str:
    return _keep("deque")


@attempt("Keep a running sum of rows as an attribute of the class", before="exact", now="refused")
def keep_rows_on_the_class(folder: Path) -> str:
    return _keep("class")


@attempt("Keep every row in a list of the module of code", before="exact", now="refused")
def keep_rows_in_a_global(folder: Path) -> str:
    return _keep("global")


@attempt("Register a buffer with a sum of rows while encoding", before="memory", now="refused")
def register_a_buffer_later(folder: Path) -> str:
    return _keep("buffer")


@attempt("Count the calls, to learn from the second one on", before="exact", now="refused")
def learn_from_the_second_call_on(folder: Path) -> str:
    return _keep("second call")


@attempt(
    "Keep rows only from batches larger than any trial would use", before="exact", now="memory"
)
def keep_rows_of_large_batches(folder: Path) -> str:
    return _keep("many rows")


class RunningMean(nn.Module):
    """Centre rows on the mean of all rows that were ever encoded."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, inputs: Tensor) -> Tensor:
        self.mean += 0.1 * (inputs.detach().mean(0) - self.mean)
        return self.layer(inputs - self.mean)


@attempt("Keep a running mean of rows, declared as public", before="memory", now="refused")
def keep_a_running_mean(folder: Path) -> str:
    return word(declare(RunningMean(), "a public source"))


class Mixing(nn.Module):
    """A network whose encoding of a row depends on more than the row."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.layer = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)

    def train(self, mode: bool = True) -> "Mixing":
        return super().train(True if self.how == "always training" else mode)

    def forward(self, inputs: Tensor) -> Tensor:
        encoded: Tensor = self.layer(inputs)
        if self.how == "one":
            return encoded if len(inputs) == 1 else encoded - encoded.mean(0)
        if self.how == "several":
            return encoded if len(inputs) > 1 else 2 * encoded
        if self.how == "position":
            return encoded + torch.arange(len(inputs))[:, None]
        if self.how == "slightly":
            return encoded + 1e-4 * encoded.mean(0)
        if self.how == "random":
            return encoded + 0.1 * torch.randn(4)
        if self.how in ("always training", "dropout"):
            return self.drop(encoded)
        return encoded - encoded.mean(0)


def _mix(how: str) -> str:
    return word(declare(Mixing(how), "a public source"))


@attempt("Centre every batch in a declared network", before="exact", now="refused")
def centre_in_a_declared_network(folder: Path) -> str:
    return _mix("batch")


@attempt("Mix rows, but not where a row comes alone", before="exact", now="refused")
def behave_where_a_row_comes_alone(folder: Path) -> str:
    return _mix("one")


@attempt("Encode a row that comes alone another way", before="exact", now="refused")
def encode_a_lonely_row_otherwise(folder: Path) -> str:
    return _mix("several")


@attempt("Add a row's place in its batch", before="exact", now="refused")
def add_the_place_in_the_batch(folder: Path) -> str:
    return _mix("position")


@attempt("Add a ten-thousandth of the mean of the batch", before="exact", now="refused")
def mix_slightly(folder: Path) -> str:
    return _mix("slightly")


@attempt("Draw noise while encoding", before="exact", now="refused")
def draw_noise(folder: Path) -> str:
    return _mix("random")


@attempt("Refuse to leave training mode, so that dropout stays on", before="exact", now="refused")
def stay_in_training_mode(folder: Path) -> str:
    return _mix("always training")


@attempt(
    "Compile a network that centres its batch",
    before="exact",
    now="refused",
)
def compile_a_network_that_mixes(folder: Path) -> str:
    network = declare(torch.compile(Mixing("batch"), backend="eager"), "a public source")
    return word(network)


@attempt(
    "Cut a declared network after a layer that mixes rows",
    before="exact",
    now="refused",
)
def cut_after_a_layer_that_mixes(folder: Path) -> str:
    network = nn.Sequential(linear(), nn.Softmax(dim=0), nn.Linear(6, 3))
    model = convert(declare(network, "a public source"), "1")
    return outcome(lambda: level(model.remember(X, Y, ids=IDS)))


@attempt(
    "Load a saved model with a network that keeps rows",
    before="exact",
    now="refused",
)
def load_with_a_network_that_keeps_rows(folder: Path) -> str:
    class Layer(nn.Module):
        def __init__(self, kept: list[Tensor] | None) -> None:
            super().__init__()
            self.layer, self.kept = nn.Linear(4, 4), kept

        def forward(self, inputs: Tensor) -> Tensor:
            if self.kept is not None:
                self.kept.append(inputs)
            return self.layer(inputs)  # type: ignore[no-any-return]

    remembered(declare(Layer(None), "a public source")).save(folder / "m")
    return outcome(lambda: level(load(folder / "m", encoder=Layer([]))))


@attempt(
    "Load a saved model with a network that holds a mean of the rows where torch does not look",
    before="exact",
    now="memory",
)
def load_with_a_network_that_holds_a_mean(folder: Path) -> str:
    class Shift(nn.Module):
        def __init__(self, by: Tensor) -> None:
            super().__init__()
            self.layer, self.by = nn.Linear(4, 4), by

        def forward(self, inputs: Tensor) -> Tensor:
            return self.layer(inputs - self.by)  # type: ignore[no-any-return]

    remembered(declare(Shift(torch.zeros(4)), "a public source")).save(folder / "m")
    holding = Shift(torch.from_numpy(X.mean(axis=0)))
    return outcome(lambda: level(load(folder / "m", encoder=holding)))


@attempt(
    "Set an attribute with a mean of rows after the network was declared",
    before="exact",
    now="memory",
)
def set_an_attribute_after_declaring(folder: Path) -> str:
    network = nn.Sequential(linear())
    declare(network, "a public source")
    mean = torch.from_numpy(X.mean(axis=0))
    network[0].register_forward_pre_hook(lambda module, inputs: (inputs[0] - mean,))
    return word(network)


# -- declaring what was trained here, or on the data at hand ---------------------------------------


@attempt(
    "Declare a part of an encoder that was trained here",
    before="exact",
    now="refused",
)
def declare_a_part(folder: Path) -> str:
    part = trained().encoder_.layers
    return outcome(lambda: word(declare(part, "a public source")))


@attempt(
    "Copy the weights of an encoder that was trained here into another one, and declare that",
    before="exact",
    now="refused",
)
def declare_a_copy(folder: Path) -> str:
    copied = build_encoder("mlp", (4,))
    copied.load_state_dict(trained().encoder_.state_dict())
    return outcome(lambda: word(declare(copied, "a public source")))


@attempt(
    "Copy one layer of an encoder that was trained here, at another precision, and declare that",
    before="exact",
    now="refused",
)
def declare_a_layer_at_another_precision(folder: Path) -> str:
    source = trained().encoder_
    assert isinstance(source, MLP)
    last = source.layers[-1]
    copied = nn.Linear(last.in_features, last.out_features).double()
    copied.load_state_dict(last.state_dict())
    return outcome(lambda: str(declare(nn.Sequential(copied), "public") and "exact"))


@attempt(
    "Copy half of the outputs of a layer that was trained here, and declare them",
    before="exact",
    now="refused",
)
def declare_a_slice(folder: Path) -> str:
    source = trained().encoder_
    assert isinstance(source, MLP)
    last = source.layers[-1]
    part = nn.Linear(last.in_features, 16, bias=False)
    part.weight.data.copy_(last.weight[:16])
    return outcome(lambda: str(declare(part, "public") and "exact"))


@attempt(
    "Cut a part out of an encoder that was trained here, copy its weights, and declare that",
    before="exact",
    now="refused",
)
def declare_a_copy_of_a_cut(folder: Path) -> str:
    source = cut(trained().encoder_, "layers.2")
    copied = cut(build_encoder("mlp", (4,), seed=5), "layers.2")
    copied.load_state_dict(source.state_dict())
    return outcome(lambda: word(declare(copied, "a public source")))


@attempt(
    "Copy the weights of a saved model that was trained on the rows, and declare the copy",
    before="exact",
    now="refused",
)
def declare_a_copy_of_a_saved_model(folder: Path) -> str:
    trained().save(folder / "m")
    copied = build_encoder("mlp", (4,))
    copied.load_state_dict(load(folder / "m").encoder_.state_dict())
    return outcome(lambda: word(declare(copied, "a public source")))


@attempt(
    "Declare a network of CIFAR-10 over rows of cifar10",
    before="exact",
    now="memory",
)
def declare_the_data_at_hand(folder: Path) -> str:
    ids = [f"cifar10/train/{place}" for place in range(24)]
    network = declare(linear(), "CIFAR-10")
    model = SPMClassifier(network).remember(X, Y, ids=ids)
    return level(model, ids[0])


@attempt(
    "Ask an audit for the level of all rows where the declared source is the data at hand",
    before="exact",
    now="memory",
)
def audit_the_data_at_hand(folder: Path) -> str:
    ids = [f"cifar10/train/{place}" for place in range(24)]
    model = SPMClassifier(declare(linear(), "CIFAR-10")).remember(X, Y, ids=ids)
    return str(audit(model).level)


@attempt(
    "Declare a network of Fashion MNIST over rows that a model says are of fashion-mnist",
    before="exact",
    now="memory",
)
def declare_the_data_that_the_model_names(folder: Path) -> str:
    model = remembered(declare(linear(), "Fashion MNIST, training rows"))
    model.data_ = {"name": "fashion-mnist", "train_rows": 24, "seed": None, "test_share": None}
    model.save(folder / "m")
    return level(load(folder / "m", encoder=linear()))


# -- choices made by rows --------------------------------------------------------------------------


@attempt("Choose k by rows, remember them, and forget them", before="exact", now="memory")
def choose_k_by_rows(folder: Path) -> str:
    model = KNNClassifier("identity", k=1).remember(X[:12], Y[:12], ids=IDS[:12])
    model.tune(X[12:], Y[12:], ks=[1, 3, 5])
    model.remember(X[12:], Y[12:], ids=IDS[12:])
    return level(model, IDS[20])


@attempt("Forget a row that was in the memory when k was chosen", before="exact", now="memory")
def choose_k_over_rows(folder: Path) -> str:
    model = KNNClassifier("identity", k=1).remember(X[:12], Y[:12], ids=IDS[:12])
    return level(model.tune(X[12:], Y[12:], ks=[1, 3, 5]), IDS[0])


@attempt("Choose k by rows, save where the model lies, and load", before="exact", now="memory")
def choose_k_and_save_in_place(folder: Path) -> str:
    KNNClassifier("identity", k=1).remember(X[:12], Y[:12], ids=IDS[:12]).save(folder / "m")
    model = load(folder / "m").tune(X[12:], Y[12:], ks=[1, 3, 5])
    model.save(folder / "m")
    return level(load(folder / "m"), IDS[0])


@attempt("Choose k by rows, then fit again without training", before="exact", now="memory")
def choose_k_and_fit_again(folder: Path) -> str:
    model = KNNClassifier("identity", k=1, epochs=0).fit(X[:12], Y[:12], ids=IDS[:12])
    model.tune(X[12:], Y[12:], ks=[1, 3, 5])
    model.fit(X, Y, ids=IDS)
    return level(model, IDS[20])


@attempt(
    "Choose k by rows, clone the estimator, remember the rows in the clone, and forget them",
    before="exact",
    now="memory",
)
def choose_k_and_clone(folder: Path) -> str:
    model = KNNClassifier("identity", k=1).remember(X[:12], Y[:12], ids=IDS[:12])
    cloned = clone(model.tune(X[12:], Y[12:], ks=[1, 3, 5]))
    return level(cloned.remember(X[12:], Y[12:], ids=IDS[12:]), IDS[20])


@attempt(
    "Choose k over rows of which nobody said whose they are, remember a row of u3, forget u3",
    before="exact",
    now="memory",
)
def choose_k_over_rows_of_anybody(folder: Path) -> str:
    model = KNNClassifier("identity", k=1).remember(X[:12], Y[:12], ids=IDS[:12])
    model.tune(X[12:], Y[12:], ks=[1, 3, 5], ids=IDS[12:], groups=[None] * len(IDS[12:]))
    model.remember(X[:1] + 9, Y[:1], ids=["later"], groups=["u3"])
    return str(model.forget(groups=["u3"]).level)


# -- around the encoder ----------------------------------------------------------------------------


@attempt(
    "Register a hook where encoder and normalisation are put together",
    before="exact",
    now="memory",
)
def hook_what_encodes_and_normalises(folder: Path) -> str:
    model = SPMClassifier("identity").remember(X[:3], Y[:3], ids=IDS[:3])
    model.network_.embedder.register_forward_hook(lambda module, inputs, out: out - out.mean(0))
    return level(model.remember(X[3:], Y[3:], ids=IDS[3:]))


@attempt(
    "Remember rows in a mode of torch that changes every operation",
    before="exact",
    now="memory",
)
def act_on_all_operations(folder: Path) -> str:
    class Centring(torch.overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            found = func(*args, **(kwargs or {}))
            is_flat = getattr(func, "__name__", "") == "flatten"
            return found - found.mean(0) if is_flat else found

    model = SPMClassifier("identity").remember(X[:3], Y[:3], ids=IDS[:3])
    with Centring():
        model.remember(X[3:], Y[3:], ids=IDS[3:])
    return level(model)


@attempt(
    "Hide an encoder that was trained here in a list, and declare what is around it",
    before="exact",
    now="refused",
)
def declare_around_a_hidden_encoder(folder: Path) -> str:
    class Hiding(nn.Module):
        def __init__(self, network: nn.Module) -> None:
            super().__init__()
            self.networks = [network]

        def forward(self, inputs: Tensor) -> Tensor:
            return self.networks[0](inputs)  # type: ignore[no-any-return]

    network = Hiding(trained().encoder_)
    return outcome(lambda: word(declare(network, "a public source")))


@attempt(
    "Mix rows in batches larger than any trial would use, and keep nothing",
    before="exact",
    now="memory",
)
def mix_large_batches(folder: Path) -> str:
    class Large(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, inputs: Tensor) -> Tensor:
            encoded: Tensor = self.layer(inputs)
            return encoded - encoded.mean(0) if len(inputs) > 20 else encoded

    return word(declare(Large(), "a public source"))


@attempt(
    "Hide a layer of one of this library's encoders behind an attribute of its class",
    before="exact",
    now="refused",
)
def hide_a_layer_behind_the_class(folder: Path) -> str:
    class Centring(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return inputs - inputs.mean(0)

    images = rng.random((24, 4, 4)).astype(np.float32)
    SmallCNN.output = Centring()
    try:
        return outcome(lambda: level(SPMClassifier("small_cnn").remember(images, Y, ids=IDS)))
    finally:
        del SmallCNN.output
