"""`torchvision.datasets`, and `Digits`, which needs no download.

Each family has a file of its own, loaded when one of its names is first touched. `vision.py` is
the base class, `fetched.py` that of datasets which come from elsewhere, `utils.py` fetches files,
`archives.py` unpacks them, `idx.py` reads what MNIST and its relatives are kept in,
`films.py` reads films.
"""

import importlib as _importlib

_HOMES = {
    "VisionDataset": "vision",
    "MNIST": "mnist",
    "FashionMNIST": "mnist",
    "KMNIST": "mnist",
    "EMNIST": "mnist",
    "QMNIST": "mnist",
    "CIFAR10": "cifar",
    "CIFAR100": "cifar",
    "SVHN": "svhn",
    "STL10": "stl10",
    "USPS": "usps",
    "ImageFolder": "folder",
    "DatasetFolder": "folder",
    "ImageNet": "imagenet",
    "Imagenette": "imagenette",
    "Food101": "food101",
    "EuroSAT": "eurosat",
    "CelebA": "celeba",
    "Caltech101": "caltech",
    "Caltech256": "caltech",
    "DTD": "dtd",
    "GTSRB": "gtsrb",
    "OxfordIIITPet": "oxford_iiit_pet",
    "VOCSegmentation": "voc",
    "VOCDetection": "voc",
    "CocoDetection": "coco",
    "CocoCaptions": "coco",
    "Country211": "rendered",
    "RenderedSST2": "rendered",
    "SUN397": "sun397",
    "FGVCAircraft": "fgvc_aircraft",
    "CLEVRClassification": "clevr",
    "SEMEION": "semeion",
    "Omniglot": "omniglot",
    "Sintel": "_optical_flow",
    "KittiFlow": "_optical_flow",
    "FlyingChairs": "_optical_flow",
    "FlyingThings3D": "_optical_flow",
    "HD1K": "_optical_flow",
    "CREStereo": "_stereo_matching",
    "CarlaStereo": "_stereo_matching",
    "ETH3DStereo": "_stereo_matching",
    "FallingThingsStereo": "_stereo_matching",
    "InStereo2k": "_stereo_matching",
    "Kitti2012Stereo": "_stereo_matching",
    "Kitti2015Stereo": "_stereo_matching",
    "Middlebury2014Stereo": "_stereo_matching",
    "SceneFlowStereo": "_stereo_matching",
    "SintelStereo": "_stereo_matching",
    "LSUN": "lsun",
    "LSUNClass": "lsun",
    "PCAM": "pcam",
    "Flickr8k": "flickr",
    "Flickr30k": "flickr",
    "SBU": "sbu",
    "Flowers102": "flowers102",
    "StanfordCars": "stanford_cars",
    "FER2013": "fer2013",
    "MovingMNIST": "moving_mnist",
    "Kitti": "kitti",
    "LFWPeople": "lfw",
    "LFWPairs": "lfw",
    "Places365": "places365",
    "INaturalist": "inaturalist",
    "WIDERFace": "widerface",
    "Cityscapes": "cityscapes",
    "SBDataset": "sbd",
    "PhotoTour": "phototour",
    "HMDB51": "hmdb51",
    "UCF101": "ucf101",
    "Kinetics": "kinetics",
    "FakeData": "fakedata",
    "Digits": "digits",
    "wrap_dataset_for_transforms_v2": "wrapping",
}
_MODULES = {
    *_HOMES.values(),
    "actions",
    "archives",
    "fetched",
    "films",
    "idx",
    "mat_files",
    "pickled_arrays",
    "tensor_images",
    "utils",
    "video_utils",
}

__all__ = list(_HOMES)


def __getattr__(name):
    if name in _HOMES:
        value = getattr(_importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_HOMES, *_MODULES})
