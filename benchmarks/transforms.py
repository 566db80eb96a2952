"""Transforms beside PyTorch's: python benchmarks/transforms.py [--seconds 3]

Both packages run the same function in turn, in one process; the best time of each counts.
"""

import argparse
import time
import warnings

import torch

import flambeau


def per_sample(package, model, samples, targets):
    """Gradients of each sample of a model."""
    func, F = package.func, package.nn.functional
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters, sample, target):
        scores = func.functional_call(model, parameters, (sample[None],))
        return F.cross_entropy(scores, target[None])

    slopes = func.vmap(func.grad(loss), (None, 0, 0))
    return lambda: slopes(parameters, samples, targets)


def cases(package):
    nn, func = package.nn, package.func
    package.manual_seed(0)
    perceptron = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    convolutions = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    targets = package.randint(0, 10, (64,))
    weight, x, rows = package.randn(32, 32), package.randn(32), package.randn(256, 1000)

    def f(x):
        return (x @ weight).tanh()

    return {
        "per sample, perceptron": per_sample(package, perceptron, package.randn(64, 64), targets),
        "per sample, convolutions": per_sample(
            package, convolutions, package.randn(64, 3, 16, 16), targets
        ),
        "grad": lambda: func.grad(lambda x: f(x).sum())(x),
        "jvp": lambda: func.jvp(f, (x,), (x,)),
        "jacrev": lambda: func.jacrev(f)(x),
        "jacfwd": lambda: func.jacfwd(f)(x),
        "hessian": lambda: func.hessian(lambda x: f(x).pow(2).sum())(x),
        "vmap of softmax": lambda: func.vmap(lambda r: (r.softmax(0) * r).sum())(rows),
    }


def best_times(functions, seconds):
    """The best time of each function, all in turn."""
    for function in functions:
        function()
        function()
    best = [float("inf")] * len(functions)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for k, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3)
    settings = parser.parse_args()
    warnings.simplefilter("ignore")
    theirs, ours = cases(torch), cases(flambeau)
    for name in ours:
        a, b = best_times((theirs[name], ours[name]), settings.seconds)
        print(f"{name:26s} PyTorch {a * 1e3:8.3f} ms  flambeau {b * 1e3:8.3f} ms  {a / b:5.2f}x")


if __name__ == "__main__":
    main()
