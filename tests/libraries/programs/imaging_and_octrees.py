"""DeepInverse, Torchhd, ocnn: inverse problems, hyperdimensional vectors, octrees."""

import deepinv
import ocnn
import torch
import torchhd
from ocnn.octree import Octree, Points
from showing import show
from torchhd import embeddings
from torchhd.models import Centroid

torch.manual_seed(0)
x = torch.rand(1, 1, 16, 16)
noise = deepinv.physics.GaussianNoise(0.05)
holes = deepinv.physics.Inpainting((1, 16, 16), mask=0.5, noise_model=noise)
y = holes(x)
show("inpainting", y, holes.A_adjoint(y))
kernel = deepinv.physics.blur.gaussian_blur(sigma=1.0)
blur = deepinv.physics.Blur(kernel, padding="circular")
y = blur(x)
show("blur", y, blur.A_adjoint(y))
rays = deepinv.physics.Tomography(angles=8, img_width=16)
sinogram = rays(x)
show("tomography", sinogram, rays.A_adjoint(sinogram))
show("resonance", deepinv.physics.MRI(mask=torch.ones(16, 16))(torch.rand(1, 2, 16, 16)))
denoiser = deepinv.models.DnCNN(1, 1, depth=3, nf=8, pretrained=None)
unet = deepinv.models.UNet(1, 1, scales=2)
show("networks", denoiser(x, 0.1), unet(x), deepinv.models.WaveletDenoiser(level=2)(x, 0.1))
steps = deepinv.optim.optim_builder(
    "PGD",
    prior=deepinv.optim.TVPrior(n_it_max=5),
    data_fidelity=deepinv.optim.L2(),
    max_iter=5,
    params_algo={"stepsize": 1.0, "lambda": 0.01},
)
show("gradient steps", steps(y, blur))
show("metrics", deepinv.metric.PSNR()(x, x * 0.9), deepinv.metric.SSIM()(x, x * 0.9))
loss = deepinv.loss.EILoss(deepinv.transform.Rotate())
found = loss(x_net=unet(x), physics=blur, model=lambda y, physics, **_: unet(y)).mean()
found.backward()
show("equivariance", found, sum(p.grad.abs().sum() for p in unet.parameters()))

torch.manual_seed(1)
a = torchhd.random(3, 100)
show("vectors", torchhd.bind(a[0], a[1]).sum(), torchhd.cosine_similarity(a[0], a))
for kind in ("BSC", "MAP", "HRR", "FHRR", "VTB"):
    levels = torchhd.level(4, 64, kind)
    table = torchhd.hash_table(levels, levels)
    show(kind, table.abs().double().sum() if kind != "BSC" else table.as_subclass(torch.Tensor))
encode = embeddings.Level(10, 100, low=0, high=1)
centroids = Centroid(100, 2)
points = encode(torch.rand(6, 3)).sum(1).sign()
centroids.add(points, torch.tensor([0, 1, 0, 1, 0, 1]))
centroids.normalize()
show("centroids", centroids(points, dot=True).as_subclass(torch.Tensor))
show("embeddings", embeddings.Sinusoid(3, 50)(torch.rand(2, 3)).as_subclass(torch.Tensor))

torch.manual_seed(2)
points = torch.rand(200, 3) * 2 - 1
normals = torch.nn.functional.normalize(points, dim=1)
trees = []
for part in (slice(0, 100), slice(100, 200)):
    tree = Octree(5, 2)
    tree.build_octree(Points(points[part], normals[part]))
    trees.append(tree)
octree = ocnn.octree.merge_octrees(trees)
octree.construct_all_neigh()
features = octree.get_input_feature("ND")
show("octree", features, octree.nnum)
convolution = ocnn.nn.OctreeConv(features.shape[1], 4, nempty=False)
made = convolution(features, octree, 5)
made.square().mean().backward()
show("convolution", made, convolution.weights.grad)
network = ocnn.models.LeNet(features.shape[1], 5, 3, nempty=False).eval()
show("network", network(features, octree, octree.depth))
