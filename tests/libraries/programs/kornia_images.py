"""Kornia: filters, colours, geometry, augmentation, losses, features, morphology."""

import kornia as K
import kornia.augmentation as A
import torch
from showing import show

torch.manual_seed(0)
x = torch.rand(2, 3, 32, 32, requires_grad=True)
gray = K.color.rgb_to_grayscale(x)
for name, value in {
    "blur": K.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)),
    "sobel": K.filters.sobel(x),
    "canny": K.filters.canny(x.detach())[0],
    "median": K.filters.median_blur(x, (3, 3)),
    "laplacian": K.filters.laplacian(x, 3),
    "bilateral": K.filters.bilateral_blur(x, (3, 3), 0.1, (1.5, 1.5)),
    "hsv": K.color.rgb_to_hsv(x),
    "lab": K.color.rgb_to_lab(x),
    "yuv": K.color.rgb_to_yuv(x),
    "equalized": K.enhance.equalize_clahe(x.detach()),
    "gamma": K.enhance.adjust_gamma(x, 0.7),
    "hue": K.enhance.adjust_hue(x, 0.2),
    "rotated": K.geometry.rotate(x, torch.tensor([30.0, 45.0])),
    "resized": K.geometry.resize(x, (20, 24)),
    "pyramid": K.geometry.pyrdown(x),
    "dilated": K.morphology.dilation(x, torch.ones(3, 3)),
    "harris": K.feature.harris_response(gray),
    "ssim": K.metrics.ssim(x, x.flip(0), 5),
}.items():
    show(name, value)
    if value.requires_grad:
        (grad,) = torch.autograd.grad(value.square().mean(), x, retain_graph=True)
        show(name + " grad", grad)
points = torch.tensor([[[0.0, 0], [31, 0], [31, 31], [0, 31]]])
target = points + torch.randn(1, 4, 2)
M = K.geometry.get_perspective_transform(points, target)
show("homography", M, K.geometry.warp_perspective(x[:1], M, (32, 32)))
show(
    "dlt",
    K.geometry.find_homography_dlt(torch.randn(1, 8, 2).cumsum(1), torch.randn(1, 8, 2).cumsum(1)),
)
q = K.geometry.axis_angle_to_quaternion(torch.randn(3, 3))
show(
    "rotations",
    K.geometry.quaternion_to_rotation_matrix(q),
    K.geometry.angle_axis_to_rotation_matrix(torch.randn(2, 3))
    if hasattr(K.geometry, "angle_axis_to_rotation_matrix")
    else 0,
)
torch.manual_seed(3)
chain = A.AugmentationSequential(
    A.RandomHorizontalFlip(p=0.5),
    A.RandomAffine(20.0, (0.1, 0.1), p=1.0),
    A.ColorJitter(0.2, 0.2, 0.2, 0.1, p=1.0),
    A.RandomErasing(p=0.5),
    A.RandomGaussianNoise(p=1.0),
    data_keys=["input", "mask"],
)
out, mask = chain(x.detach(), gray.detach())
show("augmented", out, mask)
show(
    "losses",
    K.losses.focal_loss(
        torch.randn(2, 4, 8, 8), torch.randint(0, 4, (2, 8, 8)), 0.5, reduction="mean"
    ),
    K.losses.dice_loss(torch.randn(2, 4, 8, 8), torch.randint(0, 4, (2, 8, 8))),
    K.losses.total_variation(x),
    K.losses.ssim_loss(x, x.flip(0), 5),
    K.losses.psnr_loss(x, x.flip(0), 1.0),
)
show("sift", K.feature.SIFTDescriptor(32)(gray))
show("nms", K.geometry.nms2d(gray, (3, 3)))
show("distance", K.contrib.distance_transform((gray > 0.8).float()))
