"""Attempts to get the level ``exact`` for rows that something learnt from."""

from pathlib import Path

import numpy as np

from adversary.attempts import attempt
from erasable import SPMClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
Y = np.arange(60) % 3


@attempt(
    "Train on rows of u3, forget them by id, remember one later row of u3, forget the group",
    before="exact",
    now="memory",
)
def forget_a_group_whose_trained_rows_are_gone(folder: Path) -> str:
    groups = ["u3" if row < 3 else "others" for row in range(60)]
    model = SPMClassifier(epochs=1, random_state=0).fit(X, Y, ids=list(range(60)), groups=groups)
    model.forget(ids=[0, 1, 2])
    model.remember(X[:1] + 5, Y[:1], ids=["later"], groups=["u3"], reinstate=True)

    return str(model.forget(groups=["u3"]).level)
