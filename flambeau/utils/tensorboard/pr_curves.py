"""Curves of precision and recall over thresholds."""

from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData

from flambeau._tensor import Tensor
from flambeau.utils.tensorboard._convert_np import make_np

MOST_THRESHOLDS = 127  # TensorBoard shows nothing for more
SMALLEST_COUNT = 1e-7  # instead of dividing by zero


def pr_curve_raw(
    tag: str,
    tp: Any,
    fp: Any,
    tn: Any,
    fn: Any,
    precision: Any,
    recall: Any,
    num_thresholds: int = 127,
    weights: Any = None,
) -> Summary:
    """A curve that somebody else has counted: a number per threshold in each of the six."""
    rows = (tp, fp, tn, fn, precision, recall)
    data = np.stack([make_np(row) if isinstance(row, Tensor) else row for row in rows])
    return _summary(tag, data, min(num_thresholds, MOST_THRESHOLDS))


def pr_curve(
    tag: str, labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None
) -> Summary:
    """The curve of predicted probabilities against labels of 0 and 1."""
    num_thresholds = min(num_thresholds, MOST_THRESHOLDS)
    labels, predictions = make_np(labels), make_np(predictions)
    return _summary(
        tag, compute_curve(labels, predictions, num_thresholds, weights), num_thresholds
    )


def _summary(tag, data, num_thresholds):
    content = PrCurvePluginData(version=0, num_thresholds=num_thresholds).SerializeToString()
    plugin = SummaryMetadata.PluginData(plugin_name="pr_curves", content=content)
    sizes = [TensorShapeProto.Dim(size=size) for size in data.shape]
    values = data.ravel().tolist()
    shape = TensorShapeProto(dim=sizes)
    proto = TensorProto(float_val=values, dtype="DT_FLOAT", tensor_shape=shape)
    metadata = SummaryMetadata(plugin_data=plugin)
    return Summary(value=[Summary.Value(tag=tag, metadata=metadata, tensor=proto)])


def compute_curve(
    labels: np.ndarray,
    predictions: np.ndarray,
    num_thresholds: int | None = None,
    weights: Any = None,
) -> np.ndarray:
    """Counts of true and false positives and negatives, precision, recall: a row each.

    A prediction falls into the bin below it; what a threshold accepts is its bin and all above.
    """
    weights = (
        1.0 if weights is None else make_np(weights) if isinstance(weights, Tensor) else weights
    )
    number = MOST_THRESHOLDS if num_thresholds is None else num_thresholds
    highest = number - 1
    bins = np.floor(predictions * highest).astype(np.int32)
    truth = labels.astype(np.float64)

    def accepted(weight):
        counts, _ = np.histogram(bins, bins=number, range=(0, highest), weights=weight)
        return np.cumsum(counts[::-1])[::-1]

    tp, fp = accepted(truth * weights), accepted((1.0 - truth) * weights)
    tn, fn = fp[0] - fp, tp[0] - tp
    precision = tp / np.maximum(SMALLEST_COUNT, tp + fp)
    recall = tp / np.maximum(SMALLEST_COUNT, tp + fn)
    return np.stack((tp, fp, tn, fn, precision, recall))
