"""EarlyStopping: end a training when the validation loss no longer improves.

>>> from flambeau.utils.early_stopping import EarlyStopping
>>> es = EarlyStopping(patience=2)
>>> [es(loss) for loss in (1.0, 0.8, 0.9, 0.85)]
[False, False, False, True]
>>> es.best_score, es.best_epoch
(0.8, 1)
"""

import copy
import math
from typing import Any

from flambeau._tensor import Tensor

__all__ = ["EarlyStopping"]


class EarlyStopping:
    """Says when to stop: `stop = es(val_loss)` after every epoch.

    patience: how many epochs without improvement are borne.
    min_delta: what counts as one. mode: "min" for losses, "max" for accuracies.
    restore_best_weights: with es(val_loss, model), the model gets the weights of its best epoch
    back when training stops; `restore(model)` does the same at any time.
    """

    def __init__(
        self,
        patience: int = 3,
        min_delta: float = 0.0,
        mode: str = "min",
        restore_best_weights: bool = True,
        verbose: bool = False,
    ) -> None:
        if patience < 0:
            raise ValueError(f"patience must not be negative, but got {patience}")
        if min_delta < 0:
            raise ValueError(f"min_delta must not be negative, but got {min_delta}")
        if mode not in ("min", "max"):
            raise ValueError(f'mode must be "min" or "max", but got {mode!r}')
        self.patience, self.min_delta, self.mode = patience, min_delta, mode
        self.restore_best_weights, self.verbose = restore_best_weights, verbose
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.counter = 0  # epochs since the last improvement
        self.epoch = -1
        self.best_score: float | None = None
        self.best_epoch: int | None = None
        self.best_state: dict[str, Any] | None = None
        self.early_stop = False

    @property
    def best_loss(self) -> float:
        """The best score so far; before there is one, the worst that can be."""
        if self.best_score is None:
            return math.inf if self.mode == "min" else -math.inf
        return self.best_score

    def improves(self, score: float) -> bool:
        """Is it better than the best so far, by more than min_delta? nan never is."""
        if math.isnan(score):
            return False
        if self.best_score is None:
            return True
        gain = self.best_score - score if self.mode == "min" else score - self.best_score
        return gain > self.min_delta

    def __call__(self, score: float | Tensor, model: Any = None) -> bool:
        """Note the score of an epoch; True when it is time to stop."""
        score = score.item() if isinstance(score, Tensor) else float(score)
        self.epoch += 1
        if self.improves(score):
            if self.verbose:
                print(f"EarlyStopping: {self.best_score} -> {score}")
            self.best_score, self.best_epoch, self.counter = score, self.epoch, 0
            if model is not None:
                self.best_state = copy.deepcopy(model.state_dict())
            self.early_stop = False
            return False
        self.counter += 1
        if self.verbose:
            print(f"EarlyStopping: {self.counter} of {self.patience} without improvement")
        if self.counter >= self.patience:
            self.early_stop = True
            if model is not None and self.restore_best_weights:
                self.restore(model)
        return self.early_stop

    step = __call__

    def restore(self, model: Any) -> None:
        """Give a model the weights it had in its best epoch."""
        if self.best_state is None:
            raise RuntimeError(
                "EarlyStopping has no weights to restore: call it with the model, es(score, model)"
            )
        model.load_state_dict(self.best_state)

    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on after a break."""
        return copy.copy(self.__dict__)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update(state_dict)
