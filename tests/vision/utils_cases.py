"""Calls of torchvision.utils and FakeData, the same for flambeau and for torchvision.

A case is a function of a namespace: `lib.torch` makes tensors, `lib.utils` is the module under
test. `EXACT` does not depend on the version of Pillow, so what torchvision gives for it is
recorded; `DRAWN` is compared live only.
"""

import hashlib

import numpy as np


class Lib:
    """One of the two packages: its tensors, its torchvision.utils, its datasets."""

    def __init__(self, torch, vision):
        self.torch, self.utils, self.datasets = torch, vision.utils, vision.datasets

    def tensor(self, array):
        return self.torch.from_numpy(array.copy())


def _rng():
    return np.random.default_rng(5)


def _images(*shape, dtype=np.float32):
    values = _rng().random(shape)
    return (values * 255).astype(dtype) if dtype == np.uint8 else values.astype(dtype)


BATCH = _images(10, 3, 7, 5)
BYTES = _images(10, 3, 7, 5, dtype=np.uint8)
PICTURE = _images(3, 40, 60, dtype=np.uint8)
MASKS = _rng().random((4, 40, 60)) > 0.6
FLOW = _rng().standard_normal((2, 2, 9, 11)).astype(np.float32)
BOXES = np.array([[5, 5, 30, 20], [20, 10, 55, 35], [0, 0, 59, 39]], dtype=np.float32)
TURNED = np.array([[10, 10, 40, 15, 38, 30, 8, 25], [40, 5, 55, 9, 50, 38, 35, 34]])
POINTS = _rng().integers(0, 40, (2, 5, 2)).astype(np.float32)
VISIBLE = _rng().random((2, 5)) > 0.3


def grid(array, **options):
    return lambda lib: lib.utils.make_grid(lib.tensor(array), **options)


def masks(image, masks, **options):
    return lambda lib: lib.utils.draw_segmentation_masks(
        lib.tensor(image), lib.tensor(masks), **options
    )


def boxes(image, boxes, **options):
    return lambda lib: lib.utils.draw_bounding_boxes(
        lib.tensor(image), lib.tensor(boxes), **options
    )


def points(image, points, **options):
    def call(lib):
        given = dict(options)
        if "visibility" in given:
            given["visibility"] = lib.tensor(given["visibility"])
        return lib.utils.draw_keypoints(lib.tensor(image), lib.tensor(points), **given)

    return call


def flow(array):
    return lambda lib: lib.utils.flow_to_image(lib.tensor(array))


def fake(index, **options):
    """The pixels of an item, and its label behind them."""

    def call(lib):
        image, target = lib.datasets.FakeData(**options)[index]
        pixels = np.append(np.asarray(image).reshape(-1), target)
        return lib.torch.from_numpy(pixels)

    return call


EXACT = {
    "grid": grid(BATCH),
    "grid of rows of three": grid(BATCH, nrow=3, padding=1, pad_value=0.5),
    "grid in one row": grid(BYTES, nrow=20, pad_value=7),
    "grid without borders": grid(BATCH, padding=0),
    "grid, normalised": grid(BATCH - 0.3, normalize=True),
    "grid, each normalised": grid(BATCH - 0.3, normalize=True, scale_each=True),
    "grid, a range": grid(BATCH, normalize=True, value_range=(-1, 1)),
    "grid, a range for each": grid(BATCH, normalize=True, value_range=(0.2, 0.4), scale_each=True),
    "grid of constants": grid(BATCH * 0 + 3, normalize=True),
    "grid of gray": grid(BATCH[:, :1]),
    "grid of four channels": grid(np.concatenate([BATCH, BATCH[:, :1]], 1)),
    "grid of one": grid(BATCH[:1]),
    "one image": grid(BATCH[0]),
    "one gray image": grid(BATCH[0, :1]),
    "one matrix": grid(BATCH[0, 0]),
    "a list": lambda lib: lib.utils.make_grid([lib.tensor(image) for image in BATCH], nrow=4),
    "float64": grid(BATCH.astype(np.float64), normalize=True),
    "masks": masks(PICTURE, MASKS),
    "one mask": masks(PICTURE, MASKS[0], alpha=0.3, colors="red"),
    "masks of colours": masks(PICTURE, MASKS, colors=["red", (1, 2, 3), "blue", "#123456"]),
    "masks on floats": masks(PICTURE / np.float32(255), MASKS),
    "masks on float64": masks(PICTURE / 255, MASKS, alpha=1),
    "flow": flow(FLOW),
    "one flow": flow(FLOW[0]),
    "flow of nothing": flow(FLOW * 0),
    "fake": fake(0, size=3, image_size=(3, 8, 9)),
    "fake, further": fake(2, size=3, image_size=(3, 8, 9), random_offset=1000, num_classes=7),
    "fake, gray": fake(1, size=3, image_size=(1, 16, 17), num_classes=100),
    "fake, from behind": fake(-1, size=3, image_size=(4, 5, 5)),
}

DRAWN = {}
for _name, _image in {
    "bytes": PICTURE,
    "floats": PICTURE / np.float32(255),
    "float64": PICTURE / 255,
    "gray": PICTURE[:1],
}.items():
    DRAWN |= {
        f"boxes on {_name}": boxes(_image, BOXES),
        f"filled boxes on {_name}": boxes(
            _image,
            BOXES,
            labels=["a", "dog", None],
            fill=True,
            width=3,
            colors=["red", "lime", (1, 2, 3)],
        ),
        f"filled labels on {_name}": boxes(_image, BOXES, labels=["a", "b", "c"], fill_labels=True),
        f"coloured labels on {_name}": boxes(
            _image,
            BOXES,
            labels=["a", "b", "c"],
            fill_labels=True,
            label_colors=["white"] * 3,
            label_background_colors="blue",
            colors="pink",
        ),
        f"turned boxes on {_name}": boxes(_image, TURNED, width=2),
        f"filled turned boxes on {_name}": boxes(_image, TURNED, fill=True, colors=(250, 10, 10)),
    }
    if _name != "gray":
        DRAWN |= {
            f"points on {_name}": points(_image, POINTS),
            f"joined points on {_name}": points(
                _image, POINTS, connectivity=[(0, 1), (1, 4)], colors="red", radius=4, width=2
            ),
            f"seen points on {_name}": points(
                _image, POINTS, connectivity=[(0, 1), (3, 4)], visibility=VISIBLE
            ),
            f"seen points of three dimensions on {_name}": points(
                _image, POINTS, visibility=VISIBLE[..., None]
            ),
        }

# What is refused: the type of the error and its first sentence are the same.
REFUSED = {
    "grid of text": lambda lib: lib.utils.make_grid("a"),
    "grid of numbers": lambda lib: lib.utils.make_grid([1, 2]),
    "range in a list": grid(BATCH, normalize=True, value_range=[0, 1]),
    "no images": grid(BATCH[:0]),
    "boxes on a batch": boxes(BYTES, BOXES),
    "boxes on integers": boxes(PICTURE.astype(np.int32), BOXES),
    "boxes on text": lambda lib: lib.utils.draw_bounding_boxes("x", lib.tensor(BOXES)),
    "boxes inside out": boxes(PICTURE, BOXES[:, [2, 3, 0, 1]]),
    "boxes on two channels": boxes(PICTURE[:2], BOXES),
    "too few labels": boxes(PICTURE, BOXES, labels=["a"]),
    "too few colours": boxes(PICTURE, BOXES, colors=["red"]),
    "a number for a colour": boxes(PICTURE, BOXES, colors=3),
    "a pair for a colour": boxes(PICTURE, BOXES, colors=(3, 4)),
    "masks of bytes": masks(PICTURE, MASKS.astype(np.uint8)),
    "masks of another size": masks(PICTURE, MASKS[:, :3]),
    "masks of four dimensions": masks(PICTURE, MASKS[None]),
    "masks on gray": masks(PICTURE[:1], MASKS),
    "points of two dimensions": points(PICTURE, POINTS[0]),
    "points unseen": points(PICTURE, POINTS, visibility=VISIBLE[:1]),
    "flow of doubles": flow(FLOW.astype(np.float64)),
    "flow of one channel": flow(FLOW[:, :1]),
    "fake out of range": fake(3, size=3),
}


def digest(tensor):
    """What is recorded of a result: its dtype, its shape and a checksum of its bytes."""
    array = np.ascontiguousarray(tensor.numpy())
    return [str(array.dtype), list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()[:16]]
