"""Images and calls that tests of transforms share: with torchvision beside, and with what it gave.

A case is a text that is evaluated with `T` (transforms), `F` (functional), `torch` and `img` in
scope, once with torchvision's modules and once with ours; `record_transforms.py` keeps the answers.
"""

import hashlib
import random
import re
import warnings

import numpy as np

SIZE = (19, 14)  # width and height: both awkward, not equal
MODES = ["1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16", "F", "CMYK"]


def pixels(*shape, seed=0):
    """Bytes with structure: slopes, edges and noise, so that every operation has work to do."""
    state = np.random.RandomState(seed)
    height, width, _ = shape
    y, x, c = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
    slope = (x * 251 / width + y * 97 / height + 60 * c) % 256
    noise = state.randint(-40, 40, shape)
    image = np.clip(slope + noise, 0, 255)
    image[2:6, 3:9] = 255
    image[8:11, 10:15] = 0
    return image.astype(np.uint8)


def pil_image(mode, size=SIZE):
    from PIL import Image

    width, height = size
    data = pixels(height, width, 4)
    if mode in ("L", "RGB", "RGBA", "LA", "CMYK"):
        bands = len(Image.new(mode, (1, 1)).getbands())
        raw = np.ascontiguousarray(data[..., :bands])
        return Image.frombytes(mode, size, raw.tobytes())
    if mode == "1":
        return Image.frombytes("L", size, data[..., 0].tobytes()).convert("1")
    if mode == "P":
        image = Image.frombytes("P", size, (data[..., 0] // 4).tobytes())
        image.putpalette([v for i in range(64) for v in (i * 4, 255 - i * 3, (i * 37) % 256)])
        return image
    wide = data[..., 0].astype(np.int32) * 200 + data[..., 1]
    if mode == "I":
        return Image.frombytes("I", size, (wide - 9000).astype("<i4").tobytes())
    if mode == "I;16":
        return Image.frombytes("I;16", size, (wide % 32768).astype("<u2").tobytes())
    return Image.frombytes("F", size, (wide / 7.0).astype("<f4").tobytes())


# name -> how to make it with a torch-like package
TENSORS = {
    "uint8": lambda torch: tensor(torch, 3),
    "gray": lambda torch: tensor(torch, 1),
    "batch": lambda torch: torch.stack([tensor(torch, 3), tensor(torch, 3, seed=1)]),
    "float32": lambda torch: tensor(torch, 3).to(torch.float32) / 255,
    "float64": lambda torch: tensor(torch, 3).to(torch.float64) / 255,
    "float16": lambda torch: (tensor(torch, 3).to(torch.float32) / 255).to(torch.float16),
    "int8": lambda torch: (tensor(torch, 3) // 2).to(torch.int8),
    "int16": lambda torch: tensor(torch, 3).to(torch.int16) * 128,
    "int32": lambda torch: tensor(torch, 3).to(torch.int32) * 8000000,
    "int64": lambda torch: tensor(torch, 3).to(torch.int64) * 2**54,
    "strided": lambda torch: tensor(torch, 3).permute(1, 2, 0).contiguous().permute(2, 0, 1),
    "float_batch": lambda torch: (
        torch.stack([tensor(torch, 3), tensor(torch, 3, seed=1)]).to(torch.float32) / 255
    ),
    "two": lambda torch: tensor(torch, 2),
    "plane": lambda torch: tensor(torch, 1)[0],
    "vector": lambda torch: tensor(torch, 1)[0, 0],
    "empty": lambda torch: tensor(torch, 3)[None][:0],
}


def tensor(torch, channels, seed=0):
    width, height = SIZE
    data = pixels(height, width, channels, seed=seed)
    return torch.from_numpy(np.ascontiguousarray(data.transpose(2, 0, 1)))


CORNERS = "[[0, 0], [18, 0], [18, 13], [0, 13]], [[2, 1], [15, 2], [16, 12], [1, 10]]"
ANY = [
    "F.get_dimensions(img)",
    "F.get_image_size(img)",
    "F.get_image_num_channels(img)",
    "F.hflip(img)",
    "F.vflip(img)",
    "F.crop(img, 2, 3, 7, 9)",
    "F.crop(img, -2, -3, 8, 30)",
    "F.crop(img, 30, 40, 5, 6)",
    "F.center_crop(img, 7)",
    "F.center_crop(img, [8, 30])",
    "F.center_crop(img, (40, 41))",
    "F.center_crop(img, [9])",
    "F.five_crop(img, 6)",
    "F.five_crop(img, (5, 8))",
    "F.five_crop(img, (50, 8))",
    "F.five_crop(img, (5, 8, 9))",
    "F.ten_crop(img, (5, 8))",
    "F.ten_crop(img, 6, vertical_flip=True)",
    "F.pad(img, 3)",
    "F.pad(img, [2, 5], fill=7)",
    "F.pad(img, (1, 2, 3, 4), fill=9.7)",
    "F.pad(img, [2])",
    "F.pad(img, (-1, 2, -3, 4))",
    "F.pad(img, 3, fill=(1, 2, 3))",
    "F.pad(img, 3, fill=[5])",
    "F.pad(img, 3, fill=None)",
    "F.pad(img, 3, padding_mode='edge')",
    "F.pad(img, (1, 2, 3, 4), padding_mode='reflect')",
    "F.pad(img, (5, 4), padding_mode='symmetric')",
    "F.pad(img, (-1, 2, 3, -2), padding_mode='symmetric')",
    "F.pad(img, (-1, 2, 3, -2), padding_mode='edge')",
    "F.pad(img, (1, 2, 3))",
    "F.pad(img, 'x')",
    "F.pad(img, 2, fill='red')",
    "F.pad(img, 2, padding_mode='other')",
    "F.pad(img, 2, padding_mode=3)",
    "F.resize(img, 7)",
    "F.resize(img, [7, 9])",
    "F.resize(img, (31, 40))",
    "F.resize(img, [30], max_size=35)",
    "F.resize(img, [7, 9], antialias=None)",
    "F.resize(img, [8, 23], T.InterpolationMode.NEAREST)",
    "F.resize(img, [8, 23], T.InterpolationMode.NEAREST_EXACT)",
    "F.resize(img, [8, 23], T.InterpolationMode.BICUBIC)",
    "F.resize(img, [8, 23], T.InterpolationMode.LANCZOS)",
    "F.resize(img, [8, 23], T.InterpolationMode.BOX)",
    "F.resize(img, [8, 23], 2)",
    "F.resize(img, [8, 23], 'bilinear')",
    "F.resize(img, [14, 19])",
    "F.resize(img, [1, 2, 3])",
    "F.resize(img, [5, 6], max_size=9)",
    "F.resize(img, 9, max_size=9)",
    "F.resized_crop(img, 2, 3, 7, 9, [5, 5])",
    "F.rotate(img, 30)",
    "F.rotate(img, 33.3, T.InterpolationMode.BILINEAR, fill=3)",
    "F.rotate(img, 33.3, T.InterpolationMode.BILINEAR, fill=[3])",
    "F.rotate(img, -75, expand=True, fill=None)",
    "F.rotate(img, 40, expand=True, center=(3, 4))",
    "F.rotate(img, 90, T.InterpolationMode.BILINEAR, True)",
    "F.rotate(img, 20, fill=(1, 2, 3))",
    "F.rotate(img, 20, T.InterpolationMode.BICUBIC)",
    "F.rotate(img, 'x')",
    "F.rotate(img, 20, center=3)",
    "F.affine(img, 15, [2, 3], 1.2, [5, 7])",
    "F.affine(img, 15, (2, 3), 0.7, 8, T.InterpolationMode.BILINEAR, fill=4)",
    "F.affine(img, -15.5, [-2, 3], 0.9, (4.0,), center=[2, 5], fill=[9])",
    "F.affine(img, 'a', [2, 3], 1.2, [5, 7])",
    "F.affine(img, 15, 3, 1.2, [5, 7])",
    "F.affine(img, 15, [1, 2, 3], 1.2, [5, 7])",
    "F.affine(img, 15, [2, 3], 0.0, [5, 7])",
    "F.affine(img, 15, [2, 3], 1.2, 'a')",
    "F.affine(img, 15, [2, 3], 1.2, [1, 2, 3])",
    "F.affine(img, 15, [2, 3], 1.2, [1, 2], center=4)",
    f"F.perspective(img, {CORNERS})",
    f"F.perspective(img, {CORNERS}, T.InterpolationMode.NEAREST, fill=5)",
    "F.perspective(img, [[0, 0]], [[2, 1]])",
    "F.elastic_transform(img, torch.full((1, 14, 19, 2), 0.1))",
    "F.elastic_transform(img, torch.full((1, 14, 19, 2), -0.13), T.InterpolationMode.NEAREST, [2])",
    "F.elastic_transform(img, torch.zeros(1, 2, 3, 2))",
    "F.elastic_transform(img, [1])",
    "F.adjust_brightness(img, 1.4)",
    "F.adjust_brightness(img, 0.0)",
    "F.adjust_brightness(img, -1.0)",
    "F.adjust_contrast(img, 0.3)",
    "F.adjust_contrast(img, 1.9)",
    "F.adjust_contrast(img, -1)",
    "F.adjust_saturation(img, 0.3)",
    "F.adjust_saturation(img, 1.9)",
    "F.adjust_saturation(img, -0.5)",
    "F.adjust_hue(img, 0.2)",
    "F.adjust_hue(img, -0.45)",
    "F.adjust_hue(img, 0.0)",
    "F.adjust_hue(img, 0.7)",
    "F.adjust_gamma(img, 0.7)",
    "F.adjust_gamma(img, 2.2, gain=1.5)",
    "F.adjust_gamma(img, -1)",
    "F.adjust_sharpness(img, 0.2)",
    "F.adjust_sharpness(img, 2.5)",
    "F.adjust_sharpness(img, -2)",
    "F.to_grayscale(img)",
    "F.to_grayscale(img, 3)",
    "F.rgb_to_grayscale(img)",
    "F.rgb_to_grayscale(img, 3)",
    "F.rgb_to_grayscale(img, 2)",
    "F.invert(img)",
    "F.posterize(img, 3)",
    "F.posterize(img, 0)",
    "F.posterize(img, 9)",
    "F.solarize(img, 100)",
    "F.solarize(img, 0.4)",
    "F.solarize(img, 300)",
    "F.autocontrast(img)",
    "F.equalize(img)",
    "F.gaussian_blur(img, 3)",
    "F.gaussian_blur(img, [5, 3], [0.7, 1.5])",
    "F.gaussian_blur(img, (3, 7), (0.9,))",
    "F.gaussian_blur(img, [3, 3], 0.8)",
    "F.gaussian_blur(img, 4)",
    "F.gaussian_blur(img, 'x')",
    "F.gaussian_blur(img, [3, 3, 3])",
    "F.gaussian_blur(img, 3, -1.0)",
    "F.gaussian_blur(img, 3, [1.0, 2.0, 3.0])",
    "F.gaussian_blur(img, 3, 'x')",
    "F.erase(img, 2, 3, 4, 5, torch.tensor(1))",
    "F.convert_image_dtype(img)",
    "F.normalize(img, [0.4, 0.5, 0.6], [0.1, 0.2, 0.3])",
    "F.to_pil_image(img)",
]
PIL_ONLY = [
    "F.to_tensor(img)",
    "F.pil_to_tensor(img)",
    "T.ToTensor()(img)",
    "T.PILToTensor()(img)",
    "F.to_pil_image(F.pil_to_tensor(img))",
    "F.to_pil_image(F.to_tensor(img), img.mode)",
    "T.ToPILImage()(F.to_tensor(img))",
    "F.resize(img, [8, 23], T.InterpolationMode.HAMMING)",
]
TENSOR_ONLY = [
    "F.to_tensor(img)",
    "F.pil_to_tensor(img)",
    "F.to_pil_image(img, 'RGB')",
    "F.to_pil_image(img, 'HSV')",
    "F.to_pil_image(img, 'L')",
    "F.to_pil_image(img, 'LA')",
    "F.erase(img, 2, 3, 4, 5, torch.tensor([[[1]], [[2]], [[3]]]))",
    "F.erase(img.clone(), 2, 3, 4, 5, torch.tensor(1), inplace=True)",
    "F.normalize(img, 0.5, 0.25)",
    "F.normalize(img, [0.4], [0.1])",
    "F.normalize(img, [0.4, 0.5], [0.1, 0.2])",
    "F.normalize(img, torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.4, 0.5, 0.6]))",
    "F.normalize(img.clone(), [0.4, 0.5, 0.6], [0.1, 0.2, 0.3], inplace=True)",
    "F.normalize(img, [0.4, 0.5, 0.6], [0.1, 0.0, 0.3])",
    *(
        f"F.convert_image_dtype(img, torch.{dtype})"
        for dtype in "uint8 int8 int16 int32 int64 float16 float32 float64".split()
    ),
    "T.ConvertImageDtype(torch.float64)(img)",
    "T.LinearTransformation(torch.eye(798), torch.full((798,), 0.5))(img)",
    "T.LinearTransformation(torch.eye(7), torch.zeros(7))(img)",
]
# each of these is called several times from one seed
RANDOM = [
    "T.RandomCrop(9)(img)",
    "T.RandomCrop((5, 8), padding=2)(img)",
    "T.RandomCrop((14, 19), padding=(1, 2, 3, 4), fill=5)(img)",
    "T.RandomCrop((14, 19), padding=[4, 2])(img)",
    "T.RandomCrop((5, 8), padding=4, padding_mode='reflect')(img)",
    "T.RandomCrop((20, 25), pad_if_needed=True)(img)",
    "T.RandomCrop((14, 19))(img)",
    "T.RandomCrop(30)(img)",
    "T.RandomHorizontalFlip()(img)",
    "T.RandomVerticalFlip(p=0.3)(img)",
    "T.RandomResizedCrop(8)(img)",
    "T.RandomResizedCrop((6, 9), (0.5, 0.9), (0.9, 1.1), T.InterpolationMode.NEAREST)(img)",
    "T.RandomResizedCrop(8, (3.0, 4.0))(img)",
    "T.RandomResizedCrop(8, (3.0, 4.0), (5.0, 6.0))(img)",
    "T.RandomRotation(30)(img)",
    "T.RandomRotation((10, 80), T.InterpolationMode.BILINEAR, expand=True, fill=2)(img)",
    "T.RandomAffine(20)(img)",
    "T.RandomAffine((5, 9), (0.2, 0.3), (0.5, 1.5), (1, 2, 3, 4), fill=6, center=(1, 2))(img)",
    "T.RandomAffine(20, shear=9, interpolation=T.InterpolationMode.BILINEAR)(img)",
    "T.RandomPerspective(p=0.8)(img)",
    "T.RandomPerspective(0.3, 1.0, T.InterpolationMode.NEAREST, fill=4)(img)",
    "T.ElasticTransform(20.0, 1.0)(img)",
    "T.ColorJitter(0.4, 0.3, 0.5, 0.2)(img)",
    "T.ColorJitter(brightness=(0.5, 0.7), hue=0.1)(img)",
    "T.ColorJitter()(img)",
    "T.RandomGrayscale(0.5)(img)",
    "T.Grayscale(3)(img)",
    "T.GaussianBlur(3)(img)",
    "T.GaussianBlur((3, 5), 0.9)(img)",
    "T.RandomInvert()(img)",
    "T.RandomPosterize(3)(img)",
    "T.RandomSolarize(100)(img)",
    "T.RandomAdjustSharpness(1.7)(img)",
    "T.RandomAutocontrast()(img)",
    "T.RandomEqualize()(img)",
    "T.RandomErasing(p=0.7)(img)",
    "T.RandomErasing(1.0, (0.1, 0.5), (0.5, 2.0), value='random')(img)",
    "T.RandomErasing(1.0, value=(1, 2, 3))(img)",
    "T.RandomErasing(1.0, value=(1, 2))(img)",
    "T.RandomErasing(1.0, (1.0, 1.0))(img)",
    "T.RandomApply([T.RandomRotation(30), T.RandomHorizontalFlip()], p=0.6)(img)",
    "T.RandomOrder([T.RandomRotation(30), T.RandomCrop(9), T.RandomHorizontalFlip()])(img)",
    "T.RandomChoice([T.RandomCrop(9), T.RandomVerticalFlip(), T.Pad(2)], [1, 3, 2])(img)",
    "T.RandomChoice([T.RandomCrop(9), T.RandomVerticalFlip(), T.Pad(2)])(img)",
    "T.Compose([T.RandomCrop(12, padding=4), T.RandomHorizontalFlip(), T.Lambda(F.vflip)])(img)",
    "T.AutoAugment()(img)",
    "T.AutoAugment(T.AutoAugmentPolicy.CIFAR10, fill=7)(img)",
    "T.AutoAugment(T.AutoAugmentPolicy.SVHN, T.InterpolationMode.BILINEAR)(img)",
    "T.RandAugment()(img)",
    "T.RandAugment(3, 20, fill=3)(img)",
    "T.TrivialAugmentWide()(img)",
    "T.TrivialAugmentWide(interpolation=T.InterpolationMode.BILINEAR, fill=8)(img)",
    "T.AugMix()(img)",
    "T.AugMix(10, 2, 2, all_ops=False)(img)",
]
REPEATS = 4

# texts of transforms, and what constructors refuse
MADE = [
    "T.Compose([])",
    "T.Compose([T.ToTensor(), T.Compose([T.Resize(3)])])",
    "T.ToTensor()",
    "T.PILToTensor()",
    "T.ConvertImageDtype(torch.uint8)",
    "T.ToPILImage()",
    "T.ToPILImage('RGB')",
    "T.Normalize((0.5,), [0.5], True)",
    "T.Resize(5)",
    "T.Resize((5, 6), 3, antialias=None)",
    "T.Resize((5, 6, 7))",
    "T.Resize(5.5)",
    "T.CenterCrop(5)",
    "T.CenterCrop((5,))",
    "T.CenterCrop((5, 6, 7))",
    "T.Pad(3)",
    "T.Pad((1, 2), (3,), 'edge')",
    "T.Pad((1, 2, 3))",
    "T.Pad('x')",
    "T.Pad(1, 'x')",
    "T.Pad(1, 1, 'x')",
    "T.Lambda(len)",
    "T.Lambda(5)",
    "T.RandomApply([T.Pad(1)], p=0.2)",
    "T.RandomApply(torch.nn.ModuleList([T.Pad(1)]))",
    "T.RandomOrder([T.Pad(1)])",
    "T.RandomOrder(5)",
    "T.RandomChoice([T.Pad(1)], [1.0])",
    "T.RandomChoice([T.Pad(1)], 1.0)",
    "T.RandomCrop(5, 2)",
    "T.RandomCrop((5, 6, 7))",
    "T.RandomHorizontalFlip()",
    "T.RandomVerticalFlip(0.1)",
    "T.RandomResizedCrop(5)",
    "T.RandomResizedCrop([5, 4], scale=[0.123456, 0.5], interpolation=0)",
    "T.RandomResizedCrop(5, scale=3)",
    "T.RandomResizedCrop(5, ratio=3)",
    "T.RandomResizedCrop(5, ratio=(3, 1))",
    "T.FiveCrop(5)",
    "T.TenCrop((5, 6), True)",
    "T.LinearTransformation(torch.eye(2), torch.ones(2))",
    "T.LinearTransformation(torch.ones(2, 3), torch.ones(2))",
    "T.LinearTransformation(torch.ones(2, 2), torch.ones(3))",
    "T.LinearTransformation(torch.ones(2, 2), torch.ones(2).double())",
    "T.ColorJitter(0.1, (0.2, 0.3), 0, 0.4)",
    "T.ColorJitter(-1)",
    "T.ColorJitter(hue=0.7)",
    "T.ColorJitter((1, 0.5))",
    "T.ColorJitter('x')",
    "T.RandomRotation(5)",
    "T.RandomRotation((5, 6), 2, True, (1, 2), (3,))",
    "T.RandomRotation(-5)",
    "T.RandomRotation((1, 2, 3))",
    "T.RandomRotation(5, center=3)",
    "T.RandomRotation(5, center=(3,))",
    "T.RandomRotation(5, fill=None)",
    "T.RandomRotation(5, fill={})",
    "T.RandomAffine(5)",
    "T.RandomAffine(5, (0.1, 0.2), (1, 2), 3, 2, 4, (5, 6))",
    "T.RandomAffine(5, (0.1, 2))",
    "T.RandomAffine(5, 3)",
    "T.RandomAffine(5, scale=(0, 1))",
    "T.RandomAffine(5, scale=(0, 1, 2))",
    "T.RandomAffine(5, shear=(0, 1, 2))",
    "T.RandomAffine(5, shear=-3)",
    "T.RandomAffine(5, fill=len)",
    "T.RandomAffine(5, center=5)",
    "T.Grayscale(3)",
    "T.RandomGrayscale()",
    "T.RandomPerspective()",
    "T.RandomPerspective(fill=len)",
    "T.RandomErasing()",
    "T.RandomErasing(value='x')",
    "T.RandomErasing(value=len)",
    "T.RandomErasing(scale=3)",
    "T.RandomErasing(ratio=3)",
    "T.RandomErasing(scale=(0.5, 2))",
    "T.RandomErasing(scale=(0.5, 0.2))",
    "T.RandomErasing(p=2)",
    "T.GaussianBlur(3)",
    "T.GaussianBlur((3, 5), (1, 2))",
    "T.GaussianBlur(2)",
    "T.GaussianBlur((3, 5, 7))",
    "T.GaussianBlur(3, -1)",
    "T.GaussianBlur(3, (2, 1))",
    "T.GaussianBlur(3, (2, 1, 3))",
    "T.RandomInvert()",
    "T.RandomPosterize(2)",
    "T.RandomSolarize(2.5, 0.1)",
    "T.RandomAdjustSharpness(2)",
    "T.RandomAutocontrast()",
    "T.RandomEqualize()",
    "T.ElasticTransform()",
    "T.ElasticTransform((1.0, 2.0), [3.0, 4.0], 0, (1, 2))",
    "T.ElasticTransform(3)",
    "T.ElasticTransform((1.0, 2.0, 3.0))",
    "T.ElasticTransform((1, 2))",
    "T.ElasticTransform(1.0, 3)",
    "T.ElasticTransform(fill='x')",
    "T.AutoAugment()",
    "T.AutoAugment(T.AutoAugmentPolicy.SVHN, fill=[1])",
    "T.AutoAugment('imagenet')",
    "T.RandAugment()",
    "T.TrivialAugmentWide(num_magnitude_bins=5)",
    "T.AugMix()",
    "T.AugMix(11)",
    "T.InterpolationMode('bilinear')",
    "T.InterpolationMode.NEAREST_EXACT",
    "T.transforms.RandomTransforms([1, 2])",
    "sorted(T.transforms.__all__ + T.autoaugment.__all__)",
]


def kind_of(value):
    """A value as something to compare: what it is, and its numbers as an array."""
    if hasattr(value, "stride"):
        names = ("format", "canvas_size", "clamping_mode")
        said = [str(getattr(value, name)) for name in names if hasattr(value, name)]
        head = (type(value).__name__, str(value.dtype), tuple(value.shape), *said)
        return head, value.detach().numpy()
    if hasattr(value, "getbands"):
        palette = value.getpalette() if value.mode == "P" else None
        head = ("image", value.mode, value.size, palette and sum(palette))
        return head, np.frombuffer(value.tobytes(), np.uint8)
    return ("value", repr(value)), None


def leaves(value):
    """What is in nested lists, tuples and dicts."""
    if type(value) in (tuple, list):
        return [leaf for part in value for leaf in leaves(part)]
    if type(value) is dict:
        return [leaf for key in value for leaf in (key, *leaves(value[key]))]
    return [value]


def answers(text, scope, img, repeats=1, seed=5):
    """What a case gives, as a list of (kind, array); an error is the last of them."""
    out = []
    if repeats > 1:
        scope["torch"].manual_seed(seed)
        random.seed(seed)
    for _ in range(repeats):
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                result = eval(text, {**scope, "img": img})
        except Exception as error:
            first = str(error).split("\n")[0].split(". ")[0]
            # where classes live, and which a function knows, is not compared
            first = re.sub(r"<class '[\w.]*?(\w+)'>", r"<class '\1'>", first)
            first = re.sub(r"dict_keys\(.*?\]\)", "...", first)
            out.append((("error", type(error).__name__, first), None))
            break
        out += [kind_of(value) for value in leaves(result)]
        # ours may come with more of them from Pillow or NumPy; torchvision's are what counts
        texts = sorted({str(w.message).split("\n")[0] for w in caught if w.category is UserWarning})
        if texts:
            out.append((("warnings", *texts), None))
    if repeats > 1:
        out.append((("next", scope["torch"].rand(1).item(), random.random()), None))
    return out


# -- comparing -------------------------------------------------------------------------------------

# what interpolates, filters or takes means: sums may be rounded in another order
_SUMS = (
    "BILINEAR BICUBIC resize Resize blur Blur elastic Elastic perspective Perspective AugMix "
    "RandAugment TrivialAugmentWide sharpness Sharpness contrast ColorJitter AutoAugment"
).split()
_THROUGH_TENSORS = "blur Blur elastic Elastic AugMix".split()
_WARPS = "rotate Rotation affine Affine perspective Perspective elastic Elastic Augment".split()


def is_exact(text, kind):
    """Whether a case gives the very same numbers everywhere."""
    words = _THROUGH_TENSORS if kind in MODES else _SUMS
    return not any(word in text for word in words)


def is_compared(text, kind):
    """Halves are too coarse to tell where a warp reads; int32 overflows when it is brightened."""
    if kind == "float16":
        return not any(word in text for word in (*_WARPS, "solarize", "Solarize"))
    return kind not in ("int32", "int64") or "Augment" not in text


def unlike(found, expected, exact):
    """What is wrong with an array, or None."""
    if np.array_equal(found, expected, equal_nan=expected.dtype.kind == "f"):
        return None
    apart = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    text = f"{np.count_nonzero(apart)} of {apart.size} differ by up to {apart.max()}"
    if expected.dtype.kind == "f":
        half = expected.dtype == np.float16
        rtol, atol = (2e-3, 2e-3) if half else (1e-5, 2e-6)
        return None if np.allclose(found, expected, rtol, atol, equal_nan=True) else text
    if exact:
        return text
    if expected.dtype.itemsize >= 4:
        return None if apart.max() <= 1e-5 * np.abs(expected.astype(np.float64)).max() else text
    few = np.count_nonzero(apart) <= 1 + apart.size // 50
    return None if few and apart.max() <= 1 else text


def _array(kind, array):
    """The numbers of an answer: images of floats are floats."""
    return array.view("<f4") if kind[:2] == ("image", "F") else array


def difference(found, expected, exact):
    """The first difference between two lists of answers, or None."""
    for (kind, array), (expected_kind, expected_array) in zip(found, expected):
        if kind != expected_kind:
            return f"{kind} is not {expected_kind}"
        if array is not None:
            wrong = unlike(_array(kind, array), _array(kind, expected_array), exact)
            if wrong:
                return f"{kind}: {wrong}"
    return None if len(found) == len(expected) else f"{len(found)} answers, not {len(expected)}"


SAMPLES = 6


def _samples(array):
    flat = array.reshape(-1).astype(np.float64)
    if not flat.size:
        return []
    places = np.linspace(0, flat.size - 1, SAMPLES).astype(int)
    return [float(f"{v:.7g}") for v in (flat.mean(), *flat[places])]


def record(answered, exact):
    """Answers as something small that can be kept in a file."""
    if exact and not any(a is not None and a.dtype.kind == "f" for _, a in answered):
        whole = hashlib.sha256()
        for kind, array in answered:
            whole.update(repr(kind).encode())
            if array is not None:
                whole.update(np.ascontiguousarray(array).tobytes())
        return whole.hexdigest()[:12]
    return [
        [repr(kind), None if array is None else _samples(_array(kind, array))]
        for kind, array in answered
    ]


def recorded_difference(answered, kept, exact):
    """The same as `difference`, against what `record` gave."""
    if isinstance(kept, str):
        return None if record(answered, exact) == kept else f"not what was recorded: {answered}"
    if len(answered) != len(kept):
        return f"{len(answered)} answers, not {len(kept)}"
    for (kind, array), (expected_kind, samples) in zip(answered, kept):
        if repr(kind) != expected_kind:
            return f"{kind} is not {expected_kind}"
        if array is None or not samples:
            continue
        found = np.array(_samples(_array(kind, array)))
        expected = np.array(samples)
        is_half = "float16" in expected_kind
        slack = 1.0 if array.dtype.kind in "iu" else 4e-3 if is_half else 5e-6
        if not np.allclose(found, expected, rtol=1e-5, atol=slack, equal_nan=True):
            return f"{kind}: {found} is not {expected}"
    return None


def is_pillow_of(kept):
    """Whether the Pillow here is of the version that the record was made with."""
    import PIL

    return PIL.__version__.partition(".")[0] == kept["pillow"].partition(".")[0]


def runs():
    """All cases as (kind, text, repeats); kind is a mode, the name of a tensor, or "made"."""
    for kind in (*MODES, *TENSORS):
        own = PIL_ONLY if kind in MODES else TENSOR_ONLY
        for text in (*ANY, *own):
            yield kind, text, 1
        for text in RANDOM:
            yield kind, text, REPEATS
    for text in MADE:
        yield "made", text, 1


def run(kind, text, repeats, scope):
    """The answers of one case."""
    if kind == "made":
        return answers(text, scope, None)
    img = pil_image(kind) if kind in MODES else TENSORS[kind](scope["torch"])
    return answers(text, scope, img, repeats)
