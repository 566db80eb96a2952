"""What is said of models by torchvision and by flambeau alike: structures, start values, weights.

tests/golden/record_models.py records torchvision's answers; test_models.py and
test_model_weights.py compare ours with them, and with torchvision itself where it is installed.
"""

import contextlib
import enum
import hashlib
import inspect
import warnings

SEED = 3

# Start values are compared for these: at least one of each family, none of them large.
SMALL = [
    "convnext_tiny",
    "densenet121",
    "efficientnet_b0",
    "efficientnet_v2_s",
    "googlenet",
    "lraspp_mobilenet_v3_large",
    "maxvit_t",
    "mnasnet0_5",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "regnet_x_400mf",
    "regnet_y_400mf",
    "resnet18",
    "raft_small",
    "resnext50_32x4d",
    "s3d",
    "ssdlite320_mobilenet_v3_large",
    "shufflenet_v2_x0_5",
    "squeezenet1_0",
    "squeezenet1_1",
    "swin_t",
    "swin_v2_t",
]

# structures with other settings
VARIANTS = [
    ("resnet50", {"num_classes": 7, "replace_stride_with_dilation": [False, True, True]}),
    ("resnet18", {"zero_init_residual": True, "num_classes": 3}),
    ("mobilenet_v2", {"width_mult": 0.35, "num_classes": 5, "dropout": 0.5}),
    ("mobilenet_v3_large", {"width_mult": 0.75, "reduced_tail": True, "dilated": True}),
    ("mobilenet_v3_small", {"reduced_tail": True, "num_classes": 4}),
    ("densenet121", {"drop_rate": 0.1, "num_classes": 2}),
    ("googlenet", {"aux_logits": False, "init_weights": False, "num_classes": 2}),
    ("inception_v3", {"aux_logits": False, "init_weights": False}),
    ("vit_b_32", {"image_size": 64, "representation_size": 32, "num_classes": 2}),
    ("efficientnet_b0", {"stochastic_depth_prob": 0.5, "dropout": 0.1, "num_classes": 9}),
    ("convnext_tiny", {"layer_scale": 0.1, "num_classes": 3}),
    ("swin_t", {"num_classes": 3, "dropout": 0.1}),
    ("squeezenet1_1", {"num_classes": 6}),
    ("shufflenet_v2_x0_5", {"num_classes": 6}),
    ("mnasnet0_5", {"num_classes": 6, "dropout": 0.0}),
    ("regnet_y_400mf", {"num_classes": 6}),
    ("fcn_resnet50", {"num_classes": 5, "aux_loss": True}),
    ("deeplabv3_mobilenet_v3_large", {"aux_loss": True}),
    ("fasterrcnn_resnet50_fpn_v2", {"num_classes": 3, "min_size": 64}),
    ("keypointrcnn_resnet50_fpn", {"num_keypoints": 3}),
    ("retinanet_resnet50_fpn_v2", {"num_classes": 3}),
    ("ssdlite320_mobilenet_v3_large", {"num_classes": 3}),
    ("mvit_v2_s", {"num_classes": 3, "dropout": 0.1}),
    ("swin3d_t", {"num_classes": 3}),
]


@contextlib.contextmanager
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


FOLDERS = ("segmentation", "detection", "video", "optical_flow")


def names(models):
    """All models that are compared."""
    folders = (models, *(getattr(models, name) for name in FOLDERS))
    return sorted(name for folder in folders for name in models.list_models(module=folder))


def build(models, name, **options):
    """A model; GoogLeNet and Inception warn unless they are told whether to draw weights."""
    if "weights_backbone" in inspect.signature(models.get_model_builder(name)).parameters:
        options.setdefault("weights_backbone", None)
    with quiet():
        return models.get_model(name, **options)


def structure(model):
    """[tensors, parameters, digest of names, shapes and dtypes, digest of the text]."""
    state = model.state_dict()
    lines = [f"{key} {list(value.shape)} {value.dtype}" for key, value in state.items()]
    lines += [f"{name} {p.requires_grad}" for name, p in model.named_parameters()]
    return [
        len(state),
        sum(p.numel() for p in model.parameters()),
        digest("\n".join(lines)),
        digest(repr(model)),
    ]


def values(model):
    """A digest of all values of a state dict."""
    found = hashlib.sha256()
    for value in model.state_dict().values():
        found.update(value.numpy().tobytes())
    return found.hexdigest()[:16]


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def weights_of(models):
    """Everything that is known of published weights, by class and member."""
    kind = models.WeightsEnum
    found = {}
    everything = dict(vars(models))
    for folder in FOLDERS:
        everything |= vars(getattr(models, folder))
    for name, value in everything.items():
        if not inspect.isclass(value) or not issubclass(value, kind) or value is kind:
            continue
        for member, weights in value.__members__.items():
            found[f"{name}.{member}"] = description(weights)
    return found


def description(weights):
    meta = {k: v for k, v in weights.meta.items() if k != "_docs"}
    if "categories" in meta:
        meta["categories"] = digest(repr(meta["categories"]))
    preset = weights.transforms()
    # the names of enums differ between Python versions, their values do not
    settings = {
        k: v.value if isinstance(v, enum.Enum) else v
        for k, v in vars(preset).items()
        if k in ("crop_size", "resize_size", "mean", "std", "interpolation", "antialias")
    }
    said = [repr(weights), type(preset).__name__]
    return digest(repr([weights.url, sorted(meta.items()), sorted(settings.items()), said]))
