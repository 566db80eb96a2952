"""DeepXDE on its PyTorch backend: equations in one and two dimensions, parameters, operators."""

import os

os.environ["DDE_BACKEND"] = "pytorch"

import deepxde as dde
import numpy as np
import torch
from showing import show

dde.config.set_random_seed(0)


def sine(x, y):
    return -dde.grad.hessian(y, x) - np.pi**2 * torch.sin(np.pi * x)


ends = dde.geometry.Interval(-1, 1)
bc = dde.icbc.DirichletBC(ends, lambda x: 0, lambda x, on: on)
data = dde.data.PDE(ends, sine, bc, 16, 2, solution=lambda x: np.sin(np.pi * x), num_test=20)
net = dde.nn.FNN([1] + [16] * 2 + [1], "tanh", "Glorot uniform")
model = dde.Model(data, net)
model.compile("adam", lr=1e-3, metrics=["l2 relative error"])
history, _ = model.train(iterations=50, display_every=25, verbose=0)
show("interval", history.loss_train, model.predict(np.array([[0.5]])))

rate = dde.Variable(2.0)


def heat(x, y):
    return dde.grad.jacobian(y, x, j=1) - rate * dde.grad.hessian(y, x, i=0, j=0)


square = dde.geometry.GeometryXTime(ends, dde.geometry.TimeDomain(0, 1))
start = dde.icbc.IC(square, lambda x: np.sin(np.pi * x[:, :1]), lambda _, on: on)
edge = dde.icbc.DirichletBC(square, lambda x: 0, lambda _, on: on)
points = np.array([[0.0, 0.1], [0.3, 0.2]])
seen = dde.icbc.PointSetBC(points, np.array([[0.0], [0.4]]))
data = dde.data.TimePDE(square, heat, [edge, start, seen], 20, 6, 6, train_distribution="uniform")
model = dde.Model(data, dde.nn.FNN([2, 8, 8, 1], "sin", "Glorot normal"))
model.compile("adam", lr=1e-2, external_trainable_variables=[rate], loss_weights=[1, 1, 10, 1])
history, _ = model.train(iterations=40, display_every=20, verbose=0)
show("heat", history.loss_train, rate, model.predict(points))

branches, places = np.random.rand(6, 5).astype("float32"), np.random.rand(7, 1).astype("float32")
targets = (branches.sum(1, keepdims=True) * places.T).astype("float32")
data = dde.data.TripleCartesianProd((branches, places), targets, (branches, places), targets)
net = dde.nn.DeepONetCartesianProd([5, 8, 8], [1, 8, 8], "relu", "Glorot normal")
model = dde.Model(data, net)
model.compile("adam", lr=1e-2, decay=("step", 10, 0.5))
history, _ = model.train(iterations=20, display_every=10, verbose=0)
show("operator", history.loss_train, model.predict((branches[:2], places[:2])))
