"""skorch: a network as an estimator of scikit-learn."""

import numpy as np
import torch
from showing import show
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EpochScoring, LRScheduler
from torch import nn

rng = np.random.RandomState(0)
X = rng.randn(60, 4).astype(np.float32)
y = (X.sum(1) > 0).astype(np.int64)


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2), nn.Softmax(-1)
        )

    def forward(self, x):
        return self.layers(x)


torch.manual_seed(0)
net = NeuralNetClassifier(
    Net,
    max_epochs=3,
    lr=0.1,
    verbose=0,
    iterator_train__shuffle=True,
    optimizer=torch.optim.Adam,
    callbacks=[EpochScoring("roc_auc", lower_is_better=False), LRScheduler("StepLR", step_size=1)],
)
net.fit(X, y)
show("history", net.history[:, ("train_loss", "valid_loss", "valid_acc", "roc_auc")])
show("probabilities", net.predict_proba(X[:3]), net.predict(X[:5]))
torch.manual_seed(1)
search = GridSearchCV(
    NeuralNetClassifier(Net, max_epochs=2, verbose=0, train_split=None),
    {"module__width": [4, 6], "lr": [0.1]},
    cv=2,
    scoring="accuracy",
)
search.fit(X, y)
show("search", search.best_score_, search.best_params_)
torch.manual_seed(2)
pipe = make_pipeline(StandardScaler(), NeuralNetRegressor(nn.Linear(4, 1), max_epochs=2, verbose=0))
show("pipeline", pipe.fit(X, X.sum(1, keepdims=True)).predict(X[:3]))
net.save_params("/tmp/skorch.pt") if False else None
show("cloned", cross_val_score(NeuralNetClassifier(Net, max_epochs=1, verbose=0), X, y, cv=2))
