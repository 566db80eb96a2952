"""Operators of classical machine learning and of training, as far as they are in use."""

from typing import Any

import numpy as np

import flambeau as torch
from flambeau import Tensor
from flambeau.onnx.operators.table import ML, TRAINING, op
from flambeau.onnx.operators.values import array_of, number, tensor_of


@op("Binarizer", domain=ML)
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    return (x > threshold).to(x.dtype)


@op("Scaler", domain=ML)
def scaler(x: Tensor, *, offset: list[float], scale: list[float]) -> Tensor:
    return (x.float() - torch.tensor(offset)) * torch.tensor(scale)


@op("Imputer", domain=ML)
def imputer(
    x: Tensor,
    *,
    imputed_value_floats: list[float] | None = None,
    imputed_value_int64s: list[int] | None = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Tensor:
    """Missing numbers, marked by a value or by nan, get another one."""
    fills = imputed_value_floats or imputed_value_int64s or []
    mark = replaced_value_float if x.is_floating_point() else replaced_value_int64
    missing = torch.isnan(x) if mark != mark else torch.eq(x, mark)
    return torch.where(missing, torch.tensor(fills, dtype=x.dtype), x)


@op("Normalizer", domain=ML)
def normalizer(x: Tensor, *, norm: str = "MAX") -> Tensor:
    x = x.float()
    if norm == "MAX":
        size = torch.amax(torch.abs(x), -1, keepdim=True)
    else:
        size = torch.linalg.vector_norm(x, 1 if norm == "L1" else 2, -1, keepdim=True)
    return torch.where(size == 0, x, x / size)


@op("LinearRegressor", domain=ML)
def linear_regressor(
    x: Tensor,
    *,
    coefficients: list[float],
    intercepts: list[float] | None = None,
    post_transform: str = "NONE",
    targets: int = 1,
) -> Tensor:
    weight = torch.tensor(coefficients).reshape(targets, -1)
    bias = None if intercepts is None else torch.tensor(intercepts)
    return transformed(torch.nn.functional.linear(x.float(), weight, bias), post_transform)


def transformed(x: Tensor, name: str) -> Tensor:
    if name == "SOFTMAX":
        return torch.softmax(x, -1)
    if name == "LOGISTIC":
        return torch.sigmoid(x)
    if name != "NONE":
        raise ValueError(f"no transformation {name!r} of scores")
    return x


@op("LabelEncoder", 2, 4, domain=ML)
def label_encoder(
    x: Any,
    *,
    keys_floats: list[float] | None = None,
    keys_int64s: list[int] | None = None,
    keys_strings: list[str] | None = None,
    keys_tensor: Any = None,
    values_floats: list[float] | None = None,
    values_int64s: list[int] | None = None,
    values_strings: list[str] | None = None,
    values_tensor: Any = None,
    default_float: float = 0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: Any = None,
) -> Any:
    """One label for another, by two lists."""
    keys = first_given(keys_tensor, keys_floats, keys_int64s, keys_strings)
    values = first_given(values_tensor, values_floats, values_int64s, values_strings)
    if values_tensor is not None:
        missing = default_for(default_tensor, array_of(values_tensor).dtype)
        dtype: Any = array_of(values_tensor).dtype
    elif values_strings is not None:
        missing, dtype = default_string, object
    elif values_floats is not None:
        missing, dtype = default_float, np.float32
    else:
        missing, dtype = default_int64, np.int64
    # nan is a key like others, although it does not equal itself.
    table = {same_label(key): value for key, value in zip(keys, values)}
    array = array_of(x)
    found = [table.get(same_label(key), missing) for key in array.reshape(-1).tolist()]
    return tensor_of(np.array(found, dtype=dtype).reshape(array.shape))


def default_for(given: Any, dtype: Any) -> Any:
    if given is not None:
        return array_of(given).reshape(-1)[0]
    if dtype.kind == "O":
        return "_Unused"
    return -0.0 if dtype.kind == "f" else -1


def first_given(*options: Any) -> list[Any]:
    for option in options:
        if option is not None:
            return option if isinstance(option, list) else array_of(option).reshape(-1).tolist()
    raise ValueError("LabelEncoder needs keys and values")


def same_label(key: Any) -> Any:
    key = key.decode() if isinstance(key, bytes) else key
    return "nan" if key != key else key


AGGREGATES: list[Any] = [np.mean, np.sum, np.min, np.max]


@op("TreeEnsemble", 5, domain=ML)
def tree_ensemble(
    x: Tensor,
    *,
    nodes_featureids: list[int],
    nodes_splits: Any,
    nodes_modes: Any,
    nodes_truenodeids: list[int],
    nodes_falsenodeids: list[int],
    nodes_trueleafs: list[int],
    nodes_falseleafs: list[int],
    leaf_targetids: list[int],
    leaf_weights: Any,
    tree_roots: list[int],
    membership_values: Any = None,
    nodes_missing_value_tracks_true: list[int] | None = None,
    nodes_hitrates: Any = None,
    aggregate_function: int = 1,
    post_transform: int = 0,
    n_targets: int = 1,
) -> Tensor:
    """Each tree leads a row to a leaf; the leaves' weights are added, or their extreme taken."""
    rows = array_of(x)
    splits, modes = array_of(nodes_splits), array_of(nodes_modes)
    weights = array_of(leaf_weights)
    members = member_sets(modes, membership_values)
    results = np.zeros([len(rows), n_targets], dtype=rows.dtype)
    for result, row in zip(results, rows):
        hits: list[list[float]] = [[] for _ in range(n_targets)]
        for root in tree_roots:
            node, leaf = root, bool(nodes_trueleafs[root] and nodes_falseleafs[root])
            leaf = leaf and nodes_truenodeids[root] == nodes_falsenodeids[root]
            node = nodes_truenodeids[root] if leaf else root
            while not leaf:
                value = row[nodes_featureids[node]]
                taken = decide(int(modes[node]), value, splits[node], members.get(node))
                if value != value and nodes_missing_value_tracks_true:
                    taken = bool(nodes_missing_value_tracks_true[node])
                leaf = bool((nodes_trueleafs if taken else nodes_falseleafs)[node])
                node = (nodes_truenodeids if taken else nodes_falsenodeids)[node]
            hits[leaf_targetids[node]].append(float(weights[node]))
        for target, found in enumerate(hits):
            if found:
                total = AGGREGATES[aggregate_function](found)
                result[target] = (
                    total / len(tree_roots) * len(found) if not aggregate_function else total
                )
    scores = tensor_of(results)
    return transformed(scores, ["NONE", "SOFTMAX", "LOGISTIC"][post_transform])


def member_sets(modes: np.ndarray, values: Any) -> dict[int, set[float]]:
    """Sets of values, each ended by nan, for the nodes that test membership."""
    if values is None:
        return {}
    sets: list[set[float]] = [set()]
    for value in array_of(values).tolist():
        if value != value:
            sets.append(set())
        else:
            sets[-1].add(value)
    return dict(zip((i for i, mode in enumerate(modes) if mode == 6), sets))


def decide(mode: int, value: float, split: float, members: set[float] | None) -> bool:
    if mode == 6:
        return float(value) in (members or ())
    tests = (
        value <= split,
        value < split,
        value >= split,
        value > split,
        value == split,
        value != split,
    )
    return bool(tests[mode])


def groups(values: tuple[Any, ...], count: int) -> list[tuple[Any, ...]]:
    """Weights, gradients and states come kind by kind; here they are put together by weight."""
    size = len(values) // count
    return [values[i::size] for i in range(size)]


@op("Momentum", domain=TRAINING)
def momentum(
    rate: Tensor,
    step: Tensor,
    *values: Tensor,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> Any:
    news = []
    for x, g, v in groups(values, 3):
        g = norm_coefficient * x + g
        v = alpha * v + (beta if int(number(step)) > 0 else 1.0) * g
        news.append((x - rate * (g + alpha * v if mode == "nesterov" else v), v))
    return tuple(part for column in zip(*news) for part in column)


@op("Adagrad", domain=TRAINING)
def adagrad(
    rate: Tensor,
    step: Tensor,
    *values: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> Any:
    r = rate / (1 + step * decay_factor)
    news = []
    for x, g, h in groups(values, 3):
        g = norm_coefficient * x + g
        h = h + g * g
        news.append((x - r * g / (torch.sqrt(h) + epsilon), h))
    return tuple(part for column in zip(*news) for part in column)


@op("Adam", domain=TRAINING)
def adam(
    rate: Tensor,
    step: Tensor,
    *values: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> Any:
    t = int(number(step))
    r = rate * ((1 - beta**t) ** 0.5 / (1 - alpha**t)) if t > 0 else rate
    news = []
    for x, g, v, h in groups(values, 4):
        g = norm_coefficient * x + g
        v = alpha * v + (1 - alpha) * g
        h = beta * h + (1 - beta) * g * g
        x = x - r * v / (torch.sqrt(h) + epsilon)
        news.append(((1 - norm_coefficient_post) * x, v, h))
    return tuple(part for column in zip(*news) for part in column)
