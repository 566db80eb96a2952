"""TorchIO, torch-fidelity, supervision, spandrel: volumes, distances of images, boxes, networks."""

import numpy
import supervision as sv
import torch
import torchio as tio
from showing import gradients, show
from spandrel import ModelLoader
from spandrel.architectures.ESRGAN import ESRGAN
from spandrel.architectures.SPAN import SPAN
from torch_fidelity.metric_fid import fid_statistics_to_metric
from torch_fidelity.metric_isc import isc_features_to_metric

torch.manual_seed(0)
subject = tio.Subject(
    scan=tio.ScalarImage(tensor=torch.rand(1, 8, 9, 10)),
    label=tio.LabelMap(tensor=(torch.rand(1, 8, 9, 10) > 0.5).int()),
)
for name, transform in {
    "znorm": tio.ZNormalization(),
    "rescale": tio.RescaleIntensity((0, 1)),
    "crop": tio.CropOrPad((6, 10, 8)),
    "resample": tio.Resample(2),
    "flip": tio.RandomFlip(axes=(0, 1, 2), flip_probability=1),
    "noise": tio.RandomNoise(std=(0.1, 0.1)),
    "gamma": tio.RandomGamma(log_gamma=(0.2, 0.2)),
    "affine": tio.RandomAffine(scales=(1.1, 1.1), degrees=(10, 10), isotropic=True),
    "onehot": tio.OneHot(num_classes=2),
}.items():
    torch.manual_seed(1)
    made = transform(subject)
    show(name, made.scan.data, made.label.data, made.spatial_shape)
sampler = tio.GridSampler(subject, patch_size=4, patch_overlap=2)
joined = tio.GridAggregator(sampler, overlap_mode="average")
for patch in torch.utils.data.DataLoader(sampler, batch_size=4):
    joined.add_batch(patch["scan"][tio.DATA] * 2, patch[tio.LOCATION])
show("grid", len(sampler), joined.get_output_tensor())

numpy.random.seed(0)
a, b = numpy.random.randn(40, 6), numpy.random.randn(40, 6) + 0.3
one = {"mu": a.mean(0), "sigma": numpy.cov(a, rowvar=False)}
two = {"mu": b.mean(0), "sigma": numpy.cov(b, rowvar=False)}
show("fid", fid_statistics_to_metric(one, two, False))
show("isc", isc_features_to_metric(torch.from_numpy(a), 4, False))

boxes = torch.tensor([[0, 0, 4, 4], [1, 1, 5, 5], [6, 6, 9, 9]], dtype=torch.float32)
found = sv.Detections.from_transformers(
    {"boxes": boxes, "scores": torch.tensor([0.9, 0.8, 0.7]), "labels": torch.tensor([0, 0, 1])}
)
show("detections", found.with_nms(0.3).xyxy, found.area, found.confidence)

torch.manual_seed(2)
x = torch.rand(1, 3, 16, 16)
for name, net in {
    "esrgan": ESRGAN(in_nc=3, out_nc=3, num_filters=8, num_blocks=1, scale=2),
    "span": SPAN(num_in_ch=3, num_out_ch=3, feature_channels=8, upscale=2),
}.items():
    torch.manual_seed(3)
    for p in net.parameters():
        p.data = 0.1 * torch.randn(p.shape)
    out = net(x)
    out.square().mean().backward()
    show(name, out, gradients(net))
    if name == "esrgan":
        kept = ModelLoader("cpu").load_from_state_dict(net.state_dict())
        show("found", kept.architecture.name, kept.scale, kept(x))
