"""# Make an existing network forget.

You have a trained torch classifier and somebody asks you to delete their rows. This notebook-style
script (run it whole, or cell by cell in an editor that knows `# %%`) takes a plain torch CNN,
trained here on scikit-learn's digits by a plain loop, and

1. **converts** it: no weight is trained; the rows you `remember` take the place of its head;
2. shows **which rows decided** a prediction;
3. **forgets** a person and a class, and says at which level;
4. **adapts** it instead: a short fine-tuning of the fusion, hardly of the encoder.

Run: `python examples/convert_a_network.py` (half a minute on two cores).
"""

# %%
import numpy as np
import torch
from torch import nn

from erasable import SPMClassifier, convert
from erasable.data import load_digits
from erasable.encoders import cut

train, test = load_digits()  # 8×8 images; the people in `groups` are simulated

# %% [markdown]
# ## A network as anybody would write it


# %%
class PlainCNN(nn.Module):
    """A convolutional network with a linear head; nothing in it knows of erasable."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
        )
        self.hidden = nn.Sequential(nn.Flatten(), nn.Linear(64 * 16, 64), nn.ReLU())
        self.head = nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits (n, 10) of images (n, 1, 8, 8)."""
        return self.head(self.hidden(self.features(images)))


def as_images(array: np.ndarray) -> torch.Tensor:
    """Return images with a channel, (n, 1, 8, 8)."""
    return torch.from_numpy(array)[:, None]


torch.manual_seed(0)
network = PlainCNN()
optimizer = torch.optim.Adam(network.parameters(), 1e-3)
labels = torch.from_numpy(train.y)
for _ in range(15):
    for rows in torch.randperm(len(train)).split(64):
        loss = nn.functional.cross_entropy(network(as_images(train.X[rows])), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

network.eval()
with torch.no_grad():
    head = (network(as_images(test.X)).argmax(1).numpy() == test.y).mean()
print(f"the network itself:         {100 * head:.1f} % of {len(test)} test images")

# %% [markdown]
# ## Convert it: no training at all
#
# Everything up to the layer `hidden` becomes the encoder. The head is gone; the rows vote instead.

# %%
clf = convert(network, "hidden").remember(train.X, train.y, ids=train.ids, groups=train.groups)
print(f"converted, gaussian view:   {100 * clf.score(test.X, test.y):.1f} %")
for reduction in ("prototypes", "neighbours", "rows"):
    accuracy = clf.set_params(reduction=reduction).score(test.X, test.y)
    print(f"converted, {reduction + ':':17s}{100 * accuracy:.1f} %")

# %% [markdown]
# ## Which of my rows decided this?

# %%
clf.set_params(reduction="neighbours")
votes = clf.votes(test.X[1:2], top=3)
print(
    f"\nquery {test.ids[1]} is a {test.y[1]}, taken for a {clf.predict(test.X[1:2])[0]}; because:"
)
for row_id, label, weight in zip(votes.ids[0], votes.labels[0], votes.weights[0], strict=True):
    print(f"  {row_id:12s} a {label}, {100 * weight:.1f} % of the vote")

# %% [markdown]
# ## Forget
#
# Back to the gaussian view, which comes closest to the head. The weights were trained on these rows
# by a loop that erasable did not see, so they count as "may have seen everything": the level is
# `memory`, never `exact`.

# %%
clf.set_params(reduction="gaussian")
receipt = clf.forget(groups=[train.groups[0]])
print(f"\nforgot {receipt.rows} rows of {train.groups[0]}: level {receipt.level} ({receipt.basis})")
receipt = clf.forget(classes=[3])
print(f"forgot {receipt.rows} rows of the class 3: level {receipt.level} ({receipt.basis})")
print(f"classes now: {clf.classes_.tolist()}")
is_three = test.y == 3
print(f"a 3 is now taken for: {np.unique(clf.predict(test.X[is_three])).tolist()}")
print(f"the others:                 {100 * clf.score(test.X[~is_three], test.y[~is_three]):.1f} %")

# %% [markdown]
# ## Or adapt it: fine-tune the fusion, hardly the encoder

# %%
adapted = SPMClassifier(epochs=3, random_state=0)
adapted.fit(
    train.X,
    train.y,
    ids=train.ids,
    init=cut(network, "hidden"),
    encoder_lr_factor=0.01,
)
print(f"\nadapted in 3 epochs:        {100 * adapted.score(test.X, test.y):.1f} %")
