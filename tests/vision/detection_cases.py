"""Small detectors with drawn weights, images and targets: what they answer, in either package."""

import numpy as np

# name -> arguments that make it small and willing
_FEW = {"box_batch_size_per_image": 8, "rpn_post_nms_top_n_test": 20, "box_score_thresh": 0.2}
MODELS = {
    "FasterRCNN": {**_FEW, "box_detections_per_img": 20},
    "MaskRCNN": {**_FEW, "box_detections_per_img": 4},
    "KeypointRCNN": {**_FEW, "box_detections_per_img": 4, "num_keypoints": 3},
    "RetinaNet": {"score_thresh": 0.005, "detections_per_img": 30},
    "FCOS": {"score_thresh": 0.01, "detections_per_img": 30},
    "SSD": {"score_thresh": 0.1, "detections_per_img": 30},
}
SIZES = ((40, 50), (44, 32))
CLASSES, WIDTH = 4, 32


def backbone(torch, maps):
    """A few convolutions that give maps of several sizes."""

    class Backbone(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.out_channels = [WIDTH] * maps if maps == 2 else WIDTH
            self.stem = torch.nn.Conv2d(3, WIDTH, 3, stride=4, padding=1)
            self.rows = torch.nn.ModuleList(
                torch.nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1) for _ in range(maps)
            )

        def forward(self, x):
            x, found = self.stem(x).relu(), {}
            for number, row in enumerate(self.rows):
                x = row(x).relu()
                found[str(number)] = x
            return found

    return Backbone()


def build(torch, detection, name):
    options = dict(MODELS[name])
    parts = __import__(f"{detection.__name__}.anchor_utils", fromlist=["x"])
    if name == "SSD":
        ssd = __import__(f"{detection.__name__}.ssd", fromlist=["x"])
        boxes = parts.DefaultBoxGenerator([[2], [2, 3]])
        return ssd.SSD(backbone(torch, 2), boxes, (64, 64), CLASSES, **options)
    options |= {"min_size": 64, "max_size": 64}
    if name == "KeypointRCNN":
        heads = __import__(f"{detection.__name__}.keypoint_rcnn", fromlist=["x"])
        options["keypoint_head"] = heads.KeypointRCNNHeads(WIDTH, (512,))
    return getattr(detection, name)(backbone(torch, 5), CLASSES, **options)


def numbers(rng):
    """Images and targets as arrays."""
    images = [rng.random((3, *size)) for size in SIZES]
    targets = []
    for height, width in SIZES:
        low = rng.random((3, 2)) * [width * 0.5, height * 0.5]
        sides = rng.random((3, 2)) * [width * 0.4, height * 0.4] + 5
        boxes = np.concatenate([low, low + sides], 1).astype(np.float32)
        whole = np.zeros((3, height, width), np.uint8)
        for mask, (x0, y0, x1, y1) in zip(whole, boxes.astype(int), strict=True):
            mask[y0:y1, x0:x1] = 1
        points = rng.random((3, 3, 2)) * sides[:, None] + low[:, None]
        points = np.concatenate([points, np.ones((3, 3, 1))], 2).astype(np.float32)
        labels = rng.integers(1, CLASSES, 3)
        targets.append({"boxes": boxes, "labels": labels, "masks": whole, "keypoints": points})
    return images, targets


def answers(torch, detection, name):
    """Losses, gradients, and for each finding its shape and the sum of its values."""
    rng = np.random.default_rng(4)
    model = build(torch, detection, name).double()
    with torch.no_grad():
        for parameter in model.parameters():
            # wide enough apart that nothing depends on how ties are broken
            drawn = rng.standard_normal(tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(drawn * (parameter[0].numel() + 3) ** -0.5))
    images, targets = numbers(rng)
    images = [torch.from_numpy(image) for image in images]
    targets = [{k: torch.from_numpy(v) for k, v in target.items()} for target in targets]
    torch.manual_seed(5)
    losses = model.train()(images, targets)
    sum(losses.values()).backward()
    slopes = slopes_of(model)
    with torch.no_grad():
        found = model.eval()(images)
    return {
        "losses": {key: value.item() for key, value in losses.items()},
        "slopes": slopes,
        "found": [
            {k: [list(v.shape), float(v.double().sum())] for k, v in each.items()} for each in found
        ],
    }


def slopes_of(model):
    """The gradient of every parameter: the sum of its sizes, and that along fixed directions."""
    found = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            found[name] = None
            continue
        grad = parameter.grad.detach().double().numpy().ravel()
        along = np.cos(np.arange(grad.size) * 0.37)
        found[name] = [float(np.abs(grad).sum()), float(grad @ along)]
    return found


def flow_answers(torch, models):
    """Means of flow after each round of a small RAFT, and gradients of their total."""
    rng = np.random.default_rng(6)
    model = models.optical_flow.raft_small()  # whose coordinates are of 32 bits
    with torch.no_grad():
        for parameter in model.parameters():
            drawn = rng.standard_normal(tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(drawn * (parameter[0].numel() + 3) ** -0.5))
    frames = [torch.from_numpy(rng.random((2, 3, 128, 136))).float() * 2 - 1 for _ in range(2)]
    rounds = model.train()(*frames, num_flow_updates=3)
    sum(flow.abs().mean() for flow in rounds).backward()
    return {"flow": [float(flow.detach().mean()) for flow in rounds], "slopes": slopes_of(model)}
