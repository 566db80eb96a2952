"""pytorch-metric-learning: losses, miners, reducers, accuracy."""

import torch
from pytorch_metric_learning import distances, losses, miners, reducers, regularizers
from showing import show

torch.manual_seed(0)
x, y = torch.randn(16, 8, requires_grad=True), torch.arange(16) % 4
for name in (
    "TripletMarginLoss ContrastiveLoss NTXentLoss MultiSimilarityLoss CircleLoss NPairsLoss "
    "LiftedStructureLoss FastAPLoss GeneralizedLiftedStructureLoss SupConLoss TupletMarginLoss "
    "SignalToNoiseRatioContrastiveLoss MarginLoss IntraPairVarianceLoss AngularLoss VICRegLoss"
).split():
    loss = getattr(losses, name)()
    value = loss(x, ref_emb=x.flip(0) * 0.9) if name == "VICRegLoss" else loss(x, y)
    (grad,) = torch.autograd.grad(value, x)
    show(name, value, grad)
for name in (
    "ArcFaceLoss CosFaceLoss NormalizedSoftmaxLoss ProxyNCALoss ProxyAnchorLoss SoftTripleLoss "
    "SubCenterArcFaceLoss LargeMarginSoftmaxLoss SphereFaceLoss"
).split():
    torch.manual_seed(1)
    loss = getattr(losses, name)(num_classes=4, embedding_size=8)
    value = loss(x, y)
    value.backward()
    show(name, value, x.grad)
    x.grad = None
for miner in (
    miners.MultiSimilarityMiner(),
    miners.TripletMarginMiner(type_of_triplets="semihard"),
    miners.BatchHardMiner(),
):
    found = miner(x, y)
    show(
        type(miner).__name__,
        [len(f) for f in found],
        losses.TripletMarginLoss(reducer=reducers.MeanReducer())(x, y, found),
    )
show(
    "distances",
    distances.CosineSimilarity()(x),
    distances.LpDistance(power=2)(x),
    distances.SNRDistance()(x),
)
show(
    "regularized", losses.ContrastiveLoss(embedding_regularizer=regularizers.LpRegularizer())(x, y)
)
memory = losses.CrossBatchMemory(losses.NTXentLoss(), 8, memory_size=32)
show("memory", memory(x, y), memory(x.flip(0), y))
