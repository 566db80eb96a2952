"""Inputs and calls that tests of transforms v2 share; see `transform_cases.py` for how they run.

Cases are texts evaluated with `T` (v2), `F` (v2.functional), `tv` (tv_tensors), `torch` and `img`.
"""

import numpy as np

from tests.vision.transform_cases import SIZE, answers, pil_image, pixels, tensor

WIDTH, HEIGHT = SIZE
CANVAS = (HEIGHT, WIDTH)
_UPRIGHT = [[1, 2, 9, 8], [0, 0, 18, 13], [12, 3, 18, 11], [5, 5, 8, 7]]
_ROTATED = [[4.0, 3.0, 6.0, 4.0, 20.0], [9.0, 8.0, 5.0, 3.0, -50.0], [2.0, 9.0, 8.0, 2.5, 100.0]]
_CORNERS = [[3.0, 2.0, 9.0, 1.0, 10.0, 6.0, 4.0, 7.0], [8.0, 4.0, 12.0, 4.0, 12.0, 9.0, 8.0, 9.0]]


def _boxes(values, format, dtype):
    def make(torch, tv):
        data = torch.tensor(values, dtype=getattr(torch, dtype))
        return tv.BoundingBoxes(data, format=format, canvas_size=CANVAS)

    return make


def _sizes_from_corners(values):
    return [[x1, y1, x2 - x1, y2 - y1] for x1, y1, x2, y2 in values]


def _middles(values):
    return [[(x1 + x2) // 2, (y1 + y2) // 2, x2 - x1, y2 - y1] for x1, y1, x2, y2 in values]


def _mask(torch, tv, planes):
    data = pixels(HEIGHT, WIDTH, planes, seed=3).transpose(2, 0, 1) // 64
    data = torch.from_numpy(np.ascontiguousarray(data))
    return tv.Mask(data if planes > 1 else data[0])


PICTURES = {
    "pil": lambda torch, tv: pil_image("RGB"),
    "pil gray": lambda torch, tv: pil_image("L"),
    "uint8": lambda torch, tv: tensor(torch, 3),
    "float32": lambda torch, tv: tensor(torch, 3).to(torch.float32) / 255,
    "int16": lambda torch, tv: tensor(torch, 3).to(torch.int16) * 128,
    "gray": lambda torch, tv: tensor(torch, 1),
    "image": lambda torch, tv: tv.Image(tensor(torch, 3)),
    "float image": lambda torch, tv: tv.Image(tensor(torch, 3).to(torch.float32) / 255),
    "batch": lambda torch, tv: tv.Image(torch.stack([tensor(torch, 3), tensor(torch, 3, seed=1)])),
    "video": lambda torch, tv: tv.Video(
        torch.stack([tensor(torch, 3, seed=s) for s in range(4)]).reshape(2, 2, 3, HEIGHT, WIDTH)
    ),
}
OTHERS = {
    "mask": lambda torch, tv: _mask(torch, tv, 1),
    "masks": lambda torch, tv: _mask(torch, tv, 4),
    "xyxy": _boxes(_UPRIGHT, "XYXY", "int64"),
    "xywh": _boxes(_sizes_from_corners(_UPRIGHT), "XYWH", "int64"),
    "cxcywh": _boxes(_middles(_UPRIGHT), "CXCYWH", "int64"),
    "float xyxy": _boxes(_UPRIGHT, "XYXY", "float32"),
    "float xywh": _boxes(_sizes_from_corners(_UPRIGHT), "XYWH", "float32"),
    "float cxcywh": _boxes(_middles(_UPRIGHT), "CXCYWH", "float64"),
    "xywhr": _boxes(_ROTATED, "XYWHR", "float32"),
    "cxcywhr": _boxes(_ROTATED, "CXCYWHR", "float32"),
    "xyxyxyxy": _boxes(_CORNERS, "XYXYXYXY", "float32"),
    "points": lambda torch, tv: tv.KeyPoints(
        torch.tensor([[1.0, 2.0], [10.5, 7.25], [18.0, 13.0]]), canvas_size=CANVAS
    ),
    "whole points": lambda torch, tv: tv.KeyPoints(
        torch.tensor([[[1, 2], [10, 7]], [[18, 13], [0, 0]]]), canvas_size=CANVAS
    ),
}
INPUTS = PICTURES | OTHERS
ROTATED = ("xywhr", "cxcywhr", "xyxyxyxy")

_CORNER_POINTS = "[[0, 0], [18, 0], [18, 13], [0, 13]], [[2, 1], [15, 2], [16, 12], [1, 10]]"
GEOMETRY = [
    "F.get_size(img)",
    "F.horizontal_flip(img)",
    "F.vflip(img)",
    "F.resize(img, [7, 9])",
    "F.resize(img, 20, max_size=25)",
    "F.resize(img, None, max_size=25)",
    "F.resize(img, (31, 40), 'nearest-exact')",
    "F.resize(img, [8, 23], T.InterpolationMode.BICUBIC)",
    "F.resize(img, [14, 19])",
    "F.resize(img, [5, 6], max_size=9)",
    "F.resize(img, 9, 'other')",
    "F.pad(img, 3)",
    "F.pad(img, [2, 5], fill=7)",
    "F.pad(img, (1, 2, 3, 4))",
    "F.pad(img, (-1, 2, -3, 4))",
    "F.pad(img, 3, fill=[1, 2, 3])",
    "F.pad(img, 3, padding_mode='reflect')",
    "F.pad(img, 3, padding_mode='symmetric')",
    "F.pad(img, [1, 2, 3])",
    "F.pad(img, 'x')",
    "F.crop(img, 2, 3, 7, 9)",
    "F.crop(img, -2, -3, 8, 30)",
    "F.center_crop(img, 7)",
    "F.center_crop(img, [8, 30])",
    "F.resized_crop(img, 2, 3, 7, 9, [5, 5])",
    "F.affine(img, 15, [2, 3], 1.2, [5, 7])",
    "F.affine(img, -15.5, [-2, 3], 0.9, (4.0,), center=[2, 5], fill=[9])",
    "F.affine(img, 15, [2, 3], -1.0, [5, 7])",
    "F.rotate(img, 33.3)",
    "F.rotate(img, 33.3, 'bilinear', expand=True, fill=3)",
    "F.rotate(img, 90, expand=True)",
    "F.rotate(img, 180)",
    "F.rotate(img, -40, center=[3, 4])",
    f"F.perspective(img, {_CORNER_POINTS})",
    f"F.perspective(img, {_CORNER_POINTS}, 'nearest', fill=5)",
    "F.perspective(img, None, None, coefficients=[1.0, 0.1, 0.5, -0.05, 1.1, 1.0, 0.001, 0.002])",
    "F.perspective(img, None, None)",
    "F.elastic(img, torch.full((1, 14, 19, 2), 0.1))",
    "F.elastic(img, torch.zeros(1, 2, 3, 2))",
    "F.to_dtype(img, torch.float32, scale=True)",
    "F.to_dtype(img, torch.float64)",
]
PICTURE_ONLY = [
    "F.get_dimensions(img)",
    "F.get_num_channels(img)",
    "F.five_crop(img, 6)",
    "F.ten_crop(img, (5, 8), vertical_flip=True)",
    "F.five_crop(img, 60)",
    "F.rgb_to_grayscale(img)",
    "F.rgb_to_grayscale(img, 3)",
    "F.rgb_to_grayscale(img, 2)",
    "F.grayscale_to_rgb(img)",
    "F.adjust_brightness(img, 1.4)",
    "F.adjust_brightness(img, -1)",
    "F.adjust_contrast(img, 0.3)",
    "F.adjust_saturation(img, 1.9)",
    "F.adjust_hue(img, 0.2)",
    "F.adjust_hue(img, -0.45)",
    "F.adjust_hue(img, 0.7)",
    "F.adjust_gamma(img, 0.7)",
    "F.adjust_gamma(img, 2.2, gain=1.5)",
    "F.adjust_sharpness(img, 2.5)",
    "F.adjust_sharpness(img, 0.2)",
    "F.invert(img)",
    "F.posterize(img, 3)",
    "F.posterize(img, 9)",
    "F.solarize(img, 0.4)",
    "F.solarize(img, 100)",
    "F.autocontrast(img)",
    "F.equalize(img)",
    "F.permute_channels(img, [2, 0, 1])",
    "F.gaussian_blur(img, 3)",
    "F.gaussian_blur(img, [5, 3], [0.7, 1.5])",
    "F.gaussian_blur(img, 4)",
    "F.normalize(img, [0.4, 0.5, 0.6], [0.1, 0.2, 0.3])",
    "F.normalize(img, [0.4, 0.5, 0.6], [0.1, 0.0, 0.3])",
    "F.erase(img, 2, 3, 4, 5, torch.tensor(1))",
    "F.to_image(img)",
    "F.to_dtype(img, torch.uint8, scale=True)",
    "F.to_dtype(img, torch.int32, scale=True)",
    "F.uniform_temporal_subsample(img, 2)",
]
BOX_ONLY = [
    "F.convert_bounding_box_format(img, new_format='XYXY')",
    "F.convert_bounding_box_format(img, new_format='xywh')",
    "F.convert_bounding_box_format(img, new_format='CXCYWH')",
    "F.convert_bounding_box_format(img, new_format='XYWHR')",
    "F.convert_bounding_box_format(img, new_format='CXCYWHR')",
    "F.convert_bounding_box_format(img, new_format='XYXYXYXY')",
    "F.convert_bounding_box_format(img)",
    "F.convert_bounding_box_format(img, 'XYXY', 'XYXY')",
    "F.clamp_bounding_boxes(tv.wrap(img + 4, like=img))",
    "F.clamp_bounding_boxes(tv.wrap(img - 3, like=img), clamping_mode='hard')",
    "F.clamp_bounding_boxes(tv.wrap(img - 3, like=img), clamping_mode=None)",
    "F.clamp_bounding_boxes(img, clamping_mode='x')",
    "F.clamp_bounding_boxes(img, format='XYXY')",
    "F.sanitize_bounding_boxes(tv.wrap(img - 2, like=img))",
    "F.sanitize_bounding_boxes(img, min_area=30.0)",
    "repr(img)",
    "type(img.clone()).__name__, type(img.to(torch.float64)).__name__, type(img + 1).__name__",
]
POINT_ONLY = [
    "F.clamp_keypoints(tv.wrap(img + 4, like=img))",
    "F.sanitize_keypoints(tv.wrap(img - 2, like=img))",
    "repr(img)",
]
# several calls from one seed
RANDOM = [
    "T.RandomHorizontalFlip()(img)",
    "T.RandomVerticalFlip(0.3)(img)",
    "T.RandomCrop((5, 8), padding=2)(img)",
    "T.RandomCrop((20, 25), pad_if_needed=True, fill=3)(img)",
    "T.RandomCrop((14, 19))(img)",
    "T.RandomCrop(30)(img)",
    "T.RandomResizedCrop(8, antialias=True)(img)",
    "T.RandomRotation(30)(img)",
    "T.RandomRotation((10, 80), 'bilinear', expand=True, fill=2)(img)",
    "T.RandomAffine((5, 9), (0.2, 0.3), (0.5, 1.5), (1, 2, 3, 4), center=(1, 2))(img)",
    "T.RandomPerspective(p=0.8)(img)",
    "T.ElasticTransform(20.0, 1.0)(img)",
    "T.RandomZoomOut(p=0.7)(img)",
    "T.ScaleJitter((20, 30))(img)",
    "T.RandomShortestSize([5, 9, 12], max_size=15)(img)",
    "T.RandomResize(5, 20)(img)",
    "T.Resize(9)(img)",
    "T.CenterCrop(9)(img)",
    "T.Pad([1, 2], fill={tv.Image: 3, 'others': 1})(img)",
    "T.RandomApply([T.RandomRotation(30), T.RandomHorizontalFlip()], p=0.6)(img)",
    "T.RandomOrder([T.RandomRotation(30), T.RandomCrop(9), T.RandomHorizontalFlip()])(img)",
    "T.RandomChoice([T.RandomCrop(9), T.RandomVerticalFlip(), T.Pad(2)], [1, 3, 2])(img)",
    "T.Compose([T.RandomCrop(12, padding=4), T.RandomHorizontalFlip()])(img)",
    "T.Identity()(img)",
    "T.ToDtype(torch.float32, scale=True)(img)",
    "T.ToDtype({tv.Mask: torch.int64, tv.BoundingBoxes: torch.float64, 'others': None})(img)",
    "T.ToPureTensor()(img)",
    "T.ColorJitter(0.4, 0.3, 0.5, 0.2)(img)",
    "T.RandomPhotometricDistort(p=0.7)(img)",
    "T.RandomErasing(p=0.7)(img)",
    "T.RandomGrayscale(0.5)(img)",
    "T.RandomInvert()(img)",
]
PICTURE_RANDOM = [
    "T.FiveCrop(5)(img)",
    "T.TenCrop((5, 6))(img)",
    "T.Grayscale(3)(img)",
    "T.RGB()(img)",
    "T.RandomChannelPermutation()(img)",
    "T.RandomPosterize(3)(img)",
    "T.RandomSolarize(0.4)(img)",
    "T.RandomAdjustSharpness(1.7)(img)",
    "T.RandomAutocontrast()(img)",
    "T.RandomEqualize()(img)",
    "T.GaussianBlur(3)(img)",
    "T.GaussianNoise(sigma=0.2)(img)",
    "T.Normalize([0.4, 0.5, 0.6], [0.1, 0.2, 0.3])(img)",
    "T.RandomErasing(1.0, (0.1, 0.5), (0.5, 2.0), value='random')(img)",
    "T.RandomErasing(1.0, value=(1, 2))(img)",
    "T.AutoAugment()(img)",
    "T.AutoAugment(T.AutoAugmentPolicy.CIFAR10, fill=7)(img)",
    "T.RandAugment(3, 20)(img)",
    "T.TrivialAugmentWide()(img)",
    "T.AugMix()(img)",
    "T.AugMix(10, 2, 2, all_ops=False)(img)",
    "T.ToImage()(img)",
    "T.ToPILImage()(img)",
    "T.PILToTensor()(img)",
    "T.ConvertImageDtype(torch.float64)(img)",
    "T.Lambda(lambda x: 5, torch.Tensor)(img)",
]
# whole samples: nested, with several kinds of input
SAMPLE = (
    "({'image': make['image'], 'others': [make['mask'], 3, 'text', None]}, "
    "{'boxes': make['xyxy'], 'labels': torch.tensor([5, 6, 7, 8]), 'points': make['points']})"
)
SAMPLES = [
    f"T.RandomHorizontalFlip(1.0)({SAMPLE})",
    f"T.RandomCrop(9, padding=2)({SAMPLE})",
    f"T.RandomResizedCrop(7)({SAMPLE})",
    f"T.RandomRotation(40, expand=True)({SAMPLE})",
    f"T.RandomAffine(20, (0.1, 0.2))({SAMPLE})",
    f"T.Resize(6)({SAMPLE})",
    f"T.RandomZoomOut(p=1.0)({SAMPLE})",
    f"T.ColorJitter(0.2, 0.3)({SAMPLE})",
    f"T.RandomErasing(1.0)({SAMPLE})",
    f"T.RandomIoUCrop()({SAMPLE})",
    f"T.Compose([T.RandomIoUCrop(), T.SanitizeBoundingBoxes(), T.ToPureTensor()])({SAMPLE})",
    f"T.Compose([T.RandomCrop(5), T.SanitizeBoundingBoxes()])({SAMPLE})",
    f"T.SanitizeBoundingBoxes(min_size=4)({SAMPLE})",
    f"T.SanitizeBoundingBoxes(labels_getter=None)({SAMPLE})",
    f"T.SanitizeBoundingBoxes(labels_getter=lambda s: s[1]['labels'])({SAMPLE})",
    f"T.ConvertBoundingBoxFormat('CXCYWH')({SAMPLE})",
    f"T.ClampBoundingBoxes()({SAMPLE})",
    f"T.SetClampingMode('hard')({SAMPLE})",
    f"T.ClampKeyPoints()({SAMPLE})",
    f"T.SanitizeKeyPoints()({SAMPLE})",
    f"T.RandAugment()({SAMPLE})",
    f"T.FiveCrop(5)({SAMPLE})",
    "T.RandomHorizontalFlip(1.0)(make['image'], make['xyxy'])",
    "T.RandomHorizontalFlip(1.0)(make['uint8'], make['float32'])",
    "T.RandomHorizontalFlip(1.0)({'a': make['pil'], 'b': make['uint8']})",
    "T.RandomRotation(20)(make['image'], make['masks'])",
    "T.RandAugment()([make['image'], 1])",
    "T.RandAugment()([make['image'], make['image']])",
    "T.RandAugment()([1, 2])",
    "T.RandomCrop(4)([1, 2])",
    "T.RandomCrop(4)(make['image'], make['uint8'].new_zeros(1, 3, 3))",
    "T.RandomCrop(4)(make['image'], tv.Mask(torch.zeros(3, 3)))",
    "T.RandomIoUCrop()(make['image'])",
    "T.MixUp(num_classes=4)(make['batch'], torch.tensor([1, 3]))",
    "T.MixUp(alpha=0.4)(make['batch'].float(), torch.eye(4)[:2])",
    "T.CutMix(num_classes=4)(make['batch'], torch.tensor([1, 3]))",
    "T.CutMix(alpha=0.5, num_classes=4)({'img': make['batch'], 'Labels': torch.tensor([0, 2])})",
    "T.CutMix()(make['batch'], torch.tensor([1, 3]))",
    "T.CutMix(num_classes=4)(make['image'], torch.tensor([1, 3]))",
    "T.MixUp(num_classes=4)(make['batch'], torch.tensor([1, 3, 2]))",
    "T.MixUp(num_classes=4)(make['pil'], torch.tensor([1, 3, 2]))",
    "T.MixUp(num_classes=4)({'img': make['batch']})",
    "T.MixUp(num_classes=4)(make['batch'], 5)",
    "T.UniformTemporalSubsample(2)(make['video'])",
    "T.query_size([make['image'], make['xyxy'], 5])",
    "T.query_chw([make['image'], make['pil']])",
    "T.has_any([make['image']], tv.Image), T.has_all([1, make['mask']], tv.Mask, int)",
    "T.LinearTransformation(torch.eye(798), torch.full((798,), 0.5))(make['float image'])",
    "tv.Image(make['pil'])",
    "tv.Image(torch.zeros(3))",
    "tv.Image(torch.zeros(3, 4)).shape",
    "repr(tv.Mask(torch.zeros(1, 2)))",
    "repr(tv.Image(torch.zeros(1, 1, 2)))",
    "tv.BoundingBoxes([1, 2, 3, 4], format='xywh', canvas_size=(5, 6))",
    "tv.BoundingBoxes([[[1, 2, 3, 4]]], format='XYWH', canvas_size=(5, 6))",
    "tv.BoundingBoxes([[1, 2, 3, 4, 5]], format='XYWHR', canvas_size=(5, 6))",
    "tv.BoundingBoxes([1, 2, 3, 4], format='XYWH', canvas_size=(5, 6), clamping_mode='x')",
    "tv.KeyPoints(torch.zeros(2, 3), canvas_size=(5, 6))",
    "tv.wrap(torch.zeros(1, 4), like=make['xyxy'], format='XYWH', canvas_size=(1, 2))",
]
MADE = [
    "T.Compose([T.ToImage(), T.Resize(3)])",
    "T.Compose([])",
    "T.Compose(5)",
    "T.RandomApply([T.Identity()], p=2)",
    "T.RandomApply([T.Identity()])",
    "T.RandomChoice([T.Identity()], [1, 2])",
    "T.RandomOrder([T.Identity()])",
    "T.Resize(5)",
    "T.Resize((5, 6), 'bicubic')",
    "T.Resize(None)",
    "T.Resize(5.5)",
    "T.RandomCrop(5, 2)",
    "T.RandomCrop(5, (1, 2, 3))",
    "T.RandomCrop(5, 2, padding_mode='x')",
    "T.Pad(3, fill=(1, 2))",
    "T.Pad('x')",
    "T.Pad(1, fill=len)",
    "T.RandomHorizontalFlip(0.2)",
    "T.RandomHorizontalFlip(1.2)",
    "T.RandomResizedCrop(5)",
    "T.RandomResizedCrop(5, scale=(1,))",
    "T.RandomResizedCrop(5, ratio=(2, 1))",
    "T.RandomRotation(5)",
    "T.RandomAffine(5, (0.1, 0.2), shear=3)",
    "T.RandomAffine(5, (0.1, 2))",
    "T.RandomPerspective()",
    "T.RandomPerspective(3)",
    "T.ElasticTransform()",
    "T.ElasticTransform('x')",
    "T.ElasticTransform((1, 2, 3))",
    "T.ElasticTransform(('x', 2))",
    "T.ColorJitter(0.1, (0.2, 0.3), 0, 0.4)",
    "T.ColorJitter(-1)",
    "T.ColorJitter((1, 0.5))",
    "T.ColorJitter(hue='abc')",
    "T.RandomPhotometricDistort()",
    "T.RandomErasing()",
    "T.RandomErasing(value='x')",
    "T.GaussianBlur(3)",
    "T.GaussianBlur(3, (2, 1))",
    "T.GaussianNoise()",
    "T.JPEG(50)",
    "T.JPEG((5, 300))",
    "T.JPEG(True)",
    "T.Normalize((0.5,), (0.5,))",
    "T.ToDtype(torch.float32, scale=True)",
    "T.ToDtype('x')",
    "T.ToDtype({torch.Tensor: torch.float32, tv.Image: torch.float32})",
    "T.ToImage()",
    "T.ToPILImage('RGB')",
    "T.ToTensor()",
    "T.Lambda(len, int)",
    "T.RandomZoomOut()",
    "T.RandomZoomOut(side_range=(0.5, 1))",
    "T.RandomIoUCrop()",
    "T.ScaleJitter((5, 6))",
    "T.RandomShortestSize(5)",
    "T.SanitizeBoundingBoxes()",
    "T.SanitizeBoundingBoxes(min_size=0)",
    "T.SanitizeBoundingBoxes(labels_getter=5)",
    "T.ConvertBoundingBoxFormat('XYXY')",
    "T.ClampBoundingBoxes()",
    "T.SetClampingMode('x')",
    "T.MixUp(num_classes=3)",
    "T.CutMix(alpha=0.5)",
    "T.AutoAugment()",
    "T.AutoAugment('x')",
    "T.RandAugment()",
    "T.RandAugment(-1)",
    "T.TrivialAugmentWide()",
    "T.AugMix()",
    "T.AugMix(11)",
    "T.UniformTemporalSubsample(3)",
    "F.register_kernel('other', tv.Image)",
    "F.register_kernel(len, tv.Image)",
    "F.register_kernel(F.hflip, int)",
    "F.register_kernel(F.hflip, tv.Image)",
    "F.hflip('x')",
]
REPEATS = 3


def runs():
    """All cases as (kind, text, repeats); kind is the name of an input, "samples" or "made"."""
    for kind in INPUTS:
        calls, drawn = list(GEOMETRY), list(RANDOM)
        if kind in PICTURES:
            calls += PICTURE_ONLY
            drawn += PICTURE_RANDOM
        elif "points" in kind:
            calls += POINT_ONLY
        elif "mask" not in kind:
            calls += BOX_ONLY
        for text in calls:
            yield kind, text, 1
        for text in drawn:
            yield kind, text, REPEATS
    for text in SAMPLES:
        yield "samples", text, REPEATS
    for text in MADE:
        yield "made", text, 1


class _Making:
    """Inputs by name, made when they are asked for."""

    def __init__(self, scope):
        self.scope = scope

    def __getitem__(self, name):
        return INPUTS[name](self.scope["torch"], self.scope["tv"])


def run(kind, text, repeats, scope):
    """The answers of one case."""
    making = _Making(scope)
    img = making[kind] if kind in INPUTS else None
    return answers(text, {**scope, "make": making}, img, repeats)


_SUMS = (
    "bilinear BICUBIC resize Resize blur Blur elastic Elastic perspective Perspective AugMix "
    "RandAugment TrivialAugmentWide sharpness Sharpness contrast ColorJitter AutoAugment Distort "
    "ScaleJitter ShortestSize Noise gray Gray saturation MixUp affine Affine rotate Rotation hue"
).split()


def is_exact(text, kind):
    """Whether a case gives the very same numbers everywhere."""
    words = ["blur", "Blur", "lastic", "AugMix"] if kind.startswith("pil") else _SUMS
    return kind not in ROTATED and not any(word in text for word in words)
