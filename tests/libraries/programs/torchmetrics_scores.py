"""Scores of many kinds, in batches, collected, cloned, by classes and functions."""

import torch
import torchmetrics as tm
import torchmetrics.functional as F
import torchmetrics.functional.clustering
import torchmetrics.functional.detection
from showing import show
from torchmetrics import classification as tc

torch.manual_seed(0)
logits, target = torch.randn(20, 4), torch.randint(0, 4, (20,))
metrics = tm.MetricCollection(
    {
        "acc": tc.MulticlassAccuracy(4),
        "f1": tc.MulticlassF1Score(4),
        "auroc": tc.MulticlassAUROC(4),
        "ap": tc.MulticlassAveragePrecision(4),
        "conf": tc.MulticlassConfusionMatrix(4),
        "kappa": tc.MulticlassCohenKappa(4),
        "mcc": tc.MulticlassMatthewsCorrCoef(4),
        "cal": tc.MulticlassCalibrationError(4),
        "hinge": tc.MulticlassHingeLoss(4),
    }
)
for part in range(2):
    metrics.update(logits[part * 10 :][:10].softmax(1), target[part * 10 :][:10])
show("classes", dict(sorted(metrics.compute().items())))
p, b = torch.rand(30), torch.randint(0, 2, (30,))
for kind in (
    tc.BinaryAUROC,
    tc.BinaryPrecision,
    tc.BinaryRecall,
    tc.BinaryF1Score,
    tc.BinaryStatScores,
    tc.BinaryAveragePrecision,
    tc.BinaryJaccardIndex,
    tc.BinarySpecificity,
):
    show(kind.__name__, kind()(p, b))
show("curve", tc.BinaryPrecisionRecallCurve(thresholds=5)(p, b), F.roc(p, b, task="binary"))
a, c = torch.randn(40), torch.randn(40)
for kind in (
    tm.MeanSquaredError,
    tm.MeanAbsoluteError,
    tm.R2Score,
    tm.PearsonCorrCoef,
    tm.SpearmanCorrCoef,
    tm.ExplainedVariance,
    tm.KendallRankCorrCoef,
    tm.ConcordanceCorrCoef,
    tm.CosineSimilarity,
):
    show(
        kind.__name__, kind()(a, c) if kind is not tm.CosineSimilarity else kind()(a[None], c[None])
    )
x, y = torch.rand(2, 3, 48, 48), torch.rand(2, 3, 48, 48)
show(
    "image",
    F.structural_similarity_index_measure(x, y, data_range=1.0),
    F.peak_signal_noise_ratio(x, y, data_range=1.0),
    F.total_variation(x),
    F.universal_image_quality_index(x, y),
    F.spectral_angle_mapper(x, y),
)
show(
    "text",
    F.word_error_rate(["a b c"], ["a x c"]),
    F.bleu_score(["the cat sat"], [["the cat sat down"]]),
    F.char_error_rate(["hallo"], ["hello"]),
    F.perplexity(torch.randn(2, 5, 7), torch.randint(0, 7, (2, 5))),
)
show("audio", F.signal_noise_ratio(a, c), F.scale_invariant_signal_distortion_ratio(a, c))
show(
    "retrieval",
    tm.RetrievalMAP()(p, b, indexes=torch.arange(30) // 6),
    tm.RetrievalNormalizedDCG()(p, b, indexes=torch.arange(30) // 6),
)
show("pairs", F.pairwise_cosine_similarity(logits[:3]), F.pairwise_euclidean_distance(logits[:3]))
mean = tm.MeanMetric()
for value in (1.0, 3.0, float(b.sum())):
    mean.update(value)
show("mean", mean.compute(), mean.clone().compute(), tm.MaxMetric()(a), tm.CatMetric()(a[:3]))
tracker = tm.MetricTracker(tc.MulticlassAccuracy(4))
for _ in range(2):
    tracker.increment()
    tracker.update(logits, target)
show("tracker", tracker.compute_all(), tracker.best_metric())
boot = tm.BootStrapper(tm.MeanSquaredError(), num_bootstraps=3)
boot.update(a, c)
show(
    "clustering",
    F.clustering.mutual_info_score(target, target.roll(1)),
    F.clustering.rand_score(target, target.flip(0)),
)
show(
    "detection",
    F.detection.intersection_over_union(
        torch.tensor([[0.0, 0, 4, 4]]), torch.tensor([[2.0, 2, 6, 6]])
    ),
)
