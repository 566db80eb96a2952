"""A training run with everything that has a state, which can stop anywhere and be resumed.

`python tests/files/training_run.py FILE STOP` runs until step STOP, writes FILE and ends; with
STOP 0 it resumes from FILE if it is there and runs to the end. It prints one line per step.
"""

import random
import sys

import numpy as np

import flambeau
from flambeau import nn
from flambeau.utils.data import DataLoader, Dataset
from flambeau.utils.early_stopping import EarlyStopping
from flambeau.utils.training_state import training_state

EPOCHS, SAMPLES, BATCH = 3, 30, 4


class Noisy(Dataset):
    """Samples that are changed at random, with all three streams."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        x = flambeau.sin(flambeau.arange(6.0) * (index + 1))
        x = x + 0.1 * flambeau.randn(6)
        if random.random() < 0.5:
            x = x.flip(0)
        return x * float(np.random.uniform(0.9, 1.1)), flambeau.tensor(index % 3)


class Run:
    def __init__(self, seed=0, workers=0):
        flambeau.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        self.model = nn.Sequential(
            nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)
        )
        self.optimizer = flambeau.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.scheduler = flambeau.optim.lr_scheduler.OneCycleLR(self.optimizer, 0.1, 30)
        self.plateau = flambeau.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer, patience=0)
        self.scaler = flambeau.amp.GradScaler("cpu", init_scale=8.0, growth_interval=5)
        self.loader = DataLoader(Noisy(), batch_size=BATCH, shuffle=True, num_workers=workers)
        self.stopper = EarlyStopping(patience=2)
        self.own = flambeau.Generator().manual_seed(seed + 1)
        self.state = training_state(
            model=self.model,
            optimizer=self.optimizer,
            schedulers=[self.scheduler, self.plateau],
            scaler=self.scaler,
            loader=self.loader,
            stopper=self.stopper,
            own=self.own,
            numbers=np.random.default_rng(seed),
            epoch=0,
            step=0,
            total=0.0,
        )

    def step(self, x, y):
        state = self.state
        x = x + 0.01 * flambeau.randn(x.shape, generator=self.own)
        x = x * float(state.numbers.uniform(0.99, 1.01))
        loss = nn.functional.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if state.step < 28:
            self.scheduler.step()
        state.step += 1
        state.total += loss.item()
        return (
            f"{state.epoch} {state.step} {loss.item()!r} {self.optimizer.param_groups[0]['lr']!r}"
        )

    def go(self, path=None, stop=None):
        """Lines, one per step; stops after a step if told, having written a file."""
        state, lines = self.state, []
        while state.epoch < EPOCHS:
            for x, y in self.loader:
                lines.append(self.step(x, y))
                if state.step == stop:
                    state.save(path)
                    return lines
            self.plateau.step(state.total)
            if self.stopper(state.total, self.model):
                break
            state.epoch, state.total = state.epoch + 1, 0.0
        lines.append(repr([p.tolist() for p in self.model.state_dict().values()]))
        lines.append(repr((random.random(), np.random.random(), flambeau.rand(2).tolist())))
        return lines


if __name__ == "__main__":
    run = Run(seed=int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    if sys.argv[2] == "0":
        run.state.resume(sys.argv[1])
    print("\n".join(run.go(sys.argv[1], int(sys.argv[2]))))
