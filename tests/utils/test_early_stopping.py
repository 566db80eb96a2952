"""EarlyStopping: when it stops, and which weights it gives back."""

import math

import pytest

import flambeau
from flambeau.utils.early_stopping import EarlyStopping


class AsInTheNotes:
    """The textbook form, as the reference."""

    def __init__(self, patience=3):
        self.patience, self.best_loss, self.counter = patience, float("inf"), 0

    def __call__(self, val_loss):
        if val_loss < self.best_loss:
            self.best_loss, self.counter = val_loss, 0
            return False
        self.counter += 1
        return self.counter >= self.patience


@pytest.mark.parametrize("patience", [1, 2, 3, 5])
def test_answers_are_those_of_the_textbook_form(patience, rng):
    ours, notes = EarlyStopping(patience), AsInTheNotes(patience)
    for loss in rng.integers(0, 20, 60) / 10:
        assert ours(loss) is notes(loss)
        assert (ours.best_loss, ours.counter) == (notes.best_loss, notes.counter)
    assert EarlyStopping().patience == AsInTheNotes().patience


def test_min_delta_and_modes():
    es = EarlyStopping(patience=2, min_delta=0.1)
    assert [es(s) for s in (1.0, 0.95, 0.89, 0.85, 0.85)] == [False, False, False, False, True]
    es = EarlyStopping(patience=2, mode="max")
    assert [es(s) for s in (0.5, 0.6, 0.6, 0.4)] == [False, False, False, True]
    assert es.best_score == 0.6 and es.best_epoch == 1 and es.early_stop
    es.reset()
    assert es.best_loss == -math.inf and not es.early_stop


def test_nan_is_never_an_improvement():
    es = EarlyStopping(patience=2)
    assert [es(s) for s in (math.nan, 1.0, math.nan, math.nan)] == [False, False, False, True]


def test_the_best_weights_come_back():
    model = flambeau.nn.Linear(2, 2)
    es = EarlyStopping(patience=2)
    for epoch, loss in enumerate((3.0, 1.0, 2.0, 2.0)):
        with flambeau.no_grad():
            model.weight.fill_(epoch)
        stop = es(flambeau.tensor(loss), model)
    assert stop and model.weight.tolist() == [[1, 1], [1, 1]]
    with flambeau.no_grad():
        model.weight.fill_(9)
    es.restore(model)
    assert model.weight.tolist() == [[1, 1], [1, 1]]


def test_weights_stay_where_nobody_asks_for_the_best():
    model = flambeau.nn.Linear(1, 1)
    es = EarlyStopping(patience=1, restore_best_weights=False)
    es(1.0, model)
    with flambeau.no_grad():
        model.weight.fill_(5)
    assert es(2.0, model) and model.weight.item() == 5


def test_state_goes_on_after_a_break():
    first = EarlyStopping(patience=2)
    first(1.0), first(2.0)
    second = EarlyStopping()
    second.load_state_dict(first.state_dict())
    assert second(2.0) and second.best_epoch == 0


def test_text_and_errors(capsys):
    es = EarlyStopping(patience=1, verbose=True)
    es(1.0), es(2.0)
    assert "1 of 1" in capsys.readouterr().out
    for options in ({"patience": -1}, {"min_delta": -1}, {"mode": "best"}):
        with pytest.raises(ValueError):
            EarlyStopping(**options)
    with pytest.raises(RuntimeError, match="no weights to restore"):
        es.restore(flambeau.nn.Linear(1, 1))
