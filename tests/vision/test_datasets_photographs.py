"""Datasets of photographs in folders and lists: small copies of their layouts."""

import functools
import json
import os
import pickle
import shutil
import sys
import tarfile
import zipfile

import numpy as np
import pytest

import flambeau as torch
from flambeau.vision import datasets
from flambeau.vision.datasets import caltech, fetched, imagenet, imagenette, voc
from tests.vision.dataset_files import md5

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def theirs():
    pytest.importorskip("torch")
    return pytest.importorskip("torchvision").datasets


def picture(path, seed=0, mode="RGB"):
    rng = np.random.default_rng([seed, len(path.name)])
    shape = (6, 8, 3) if mode == "RGB" else (6, 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(rng.integers(0, 256 if mode == "RGB" else 4, shape, dtype=np.uint8))
    if mode == "P":
        image = image.convert("P")
    image.save(path)


BOX = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>5</xmax><ymax>6</ymax></bndbox>"
ANNOTATION = """<annotation><folder>VOC</folder><filename>{name}.jpg</filename>
 <size><width>8</width><height>6</height><depth>3</depth></size><empty/>{objects}</annotation>"""


def write_voc(root, base="VOCdevkit/VOC2012", image_set="train"):
    folder = root / base
    for kind in ("Segmentation", "Main"):
        (folder / "ImageSets" / kind).mkdir(parents=True, exist_ok=True)
        (folder / "ImageSets" / kind / f"{image_set}.txt").write_text("one\ntwo\nnone\n")
    (folder / "Annotations").mkdir(exist_ok=True)
    for count, name in enumerate(("none", "one", "two")):
        picture(folder / f"JPEGImages/{name}.jpg")
        picture(folder / f"SegmentationClass/{name}.png", count, "P")
        objects = "".join(f"<object><name>o{i}</name>{BOX}</object>" for i in range(count))
        text = ANNOTATION.format(name=name, objects=objects)
        (folder / f"Annotations/{name}.xml").write_text(text)


def write_coco(root):
    rng = np.random.default_rng(0)
    for number in (7, 3, 5):
        picture(root / f"{number}.jpg", number)
    content = {
        "images": [{"id": n, "file_name": f"{n}.jpg", "width": 8, "height": 6} for n in (7, 3, 5)],
        "annotations": [
            {
                "id": 10 + i,
                "image_id": [7, 3, 7][i],
                "bbox": rng.integers(0, 5, 4).tolist(),
                "category_id": i,
                "caption": f"words {i}",
            }
            for i in range(3)
        ],
        "categories": [{"id": i, "name": f"c{i}"} for i in range(3)],
    }
    (root / "all.json").write_text(json.dumps(content))


def write_food(root):
    content = {"soup": ["soup/1", "soup/2"], "cake": ["cake/9"]}
    (root / "food-101/meta").mkdir(parents=True)
    (root / "food-101/meta/train.json").write_text(json.dumps(content))
    for place in ("soup/1", "soup/2", "cake/9"):
        picture(root / f"food-101/images/{place}.jpg")


def write_pets(root):
    folder = root / "oxford-iiit-pet"
    names = ["Abyssinian_1", "great_dane_12", "Abyssinian_2"]
    lines = [f"{name} {1 + (i % 2)} {1 + (i % 2)} 1" for i, name in enumerate(names)]
    (folder / "annotations").mkdir(parents=True)
    (folder / "annotations/test.txt").write_text("\n".join(lines) + "\n")
    for name in names:
        picture(folder / f"images/{name}.jpg")
        picture(folder / f"annotations/trimaps/{name}.png", mode="L")


def write_classes(folder, classes, suffix):
    for seed, name in enumerate(classes):
        for number in range(2):
            picture(folder / name / f"{number}{suffix}", seed)


def write_imagenet(root):
    names = {"n01": ("tench", "Tinca"), "n02": ("goldfish",)}
    write_classes(root / "val", names, ".JPEG")
    torch.save((names, ["n01", "n02"]), root / "meta.bin")


def write_celeba(root):
    folder = root / "celeba"
    names = [f"{number:06d}.jpg" for number in range(1, 6)]
    for name in names:
        picture(folder / "img_align_celeba" / name, int(name[:6]))

    def table(row, header=None):
        lines = [f"{name} {row(index)}" for index, name in enumerate(names)]
        return "\n".join(([str(len(names)), header] if header else []) + lines) + "\n"

    files = {
        "list_eval_partition.txt": table(lambda i: [0, 1, 0, 2, 0][i]),
        "identity_CelebA.txt": table(lambda i: 100 + i),
        "list_bbox_celeba.txt": table(lambda i: f"  {i} 2  30 40", "image_id x_1 y_1 width height"),
        "list_landmarks_align_celeba.txt": table(
            lambda i: " ".join(str(i + k) for k in range(10)), "a_x a_y b_x b_y c_x c_y d e f g "
        ),
        "list_attr_celeba.txt": table(lambda i: f"-1  1 {1 - 2 * (i % 2)}", "Bald Smiling Young "),
    }
    for name, text in files.items():
        (folder / name).write_text(text)


def celeba(cls, root, *arguments):
    files = [
        (number, md5(path.read_bytes()) if path.is_file() else "0", name)
        for number, _, name in cls.file_list
        for path in [root / "celeba" / name]
    ]
    return type("CelebA", (cls,), {"file_list": files})(root, *arguments)


def write_caltech256(root):
    for number, name in enumerate(("001.ak47", "002.flag"), 1):
        for each in (1, 2):
            place = f"256_ObjectCategories/{name}/{number:03d}_{each:04d}.jpg"
            picture(root / "caltech256" / place, each)


def write_caltech101(root):
    for name in ("BACKGROUND_Google", "Faces", "ant"):
        picture(root / f"caltech101/101_ObjectCategories/{name}/image_0001.jpg")


def write_dtd(root):
    (root / "dtd/dtd/labels").mkdir(parents=True)
    (root / "dtd/dtd/labels/val3.txt").write_text("dotted/a.jpg\nbanded/b.jpg\ndotted/c.jpg\n")
    for place in ("dotted/a.jpg", "banded/b.jpg", "dotted/c.jpg"):
        picture(root / f"dtd/dtd/images/{place}")


def write_gtsrb(root):
    write_classes(root / "gtsrb/GTSRB/Training", ["00000", "00001"], ".ppm")
    lines = ["Filename;Width;ClassId"]
    for number in range(3):
        picture(root / f"gtsrb/GTSRB/Final_Test/Images/{number:05d}.ppm", number)
        lines.append(f"{number:05d}.ppm;8;{number * 7}")
    (root / "gtsrb/GT-final_test.csv").write_text("\n".join(lines) + "\n")


# name: (how it is written, how it is opened)
LAYOUTS = {
    "VOCSegmentation": (write_voc, lambda cls, root: cls(root)),
    "VOCDetection": (write_voc, lambda cls, root: cls(str(root), year="2012", image_set="train")),
    "Food101": (write_food, lambda cls, root: cls(root)),
    "OxfordIIITPet": (
        write_pets,
        lambda cls, root: cls(root, "test", ["category", "binary-category", "segmentation"]),
    ),
    "EuroSAT": (
        lambda root: write_classes(root / "eurosat/2750", ["River", "Forest"], ".jpg"),
        lambda cls, root: cls(root),
    ),
    "Imagenette": (
        lambda root: write_classes(
            root / "imagenette2-160/val", ["n01440764", "n03888257"], ".jpeg"
        ),
        lambda cls, root: cls(root, "val", "160px"),
    ),
    "ImageNet": (write_imagenet, lambda cls, root: cls(root, "val")),
    "CelebA": (
        write_celeba,
        lambda cls, root: celeba(cls, root, "train", ["attr", "identity", "bbox", "landmarks"]),
    ),
    "Caltech256": (write_caltech256, lambda cls, root: cls(root)),
    "DTD": (write_dtd, lambda cls, root: cls(root, "val", 3)),
    "GTSRB": (write_gtsrb, lambda cls, root: cls(root, "test")),
}
LISTS = "classes class_to_idx wnids wnid_to_idx bin_classes images targets".split()
LISTS += "filename attr_names categories index y target_type _samples _labels".split()


def plain(value):
    """Something that compares: pictures become their mode and bytes."""
    if hasattr(value, "tobytes"):
        return value.mode, value.size, value.tobytes()
    if hasattr(value, "tolist"):
        return str(value.dtype), value.tolist()
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("name", LAYOUTS)
def test_items_are_those_of_torchvision(tmp_path, theirs, name):
    write, opened = LAYOUTS[name]
    write(tmp_path)
    ours, expected = (opened(getattr(d, name), tmp_path) for d in (datasets, theirs))
    assert repr(ours) == repr(expected) and len(ours) == len(expected) > 0
    for index in range(len(ours)):
        assert plain(ours[index]) == plain(expected[index])
    for attribute in LISTS:
        assert hasattr(ours, attribute) == hasattr(expected, attribute)
        if hasattr(ours, attribute):
            assert getattr(ours, attribute) == getattr(expected, attribute)


@pytest.mark.oracle
def test_addresses_and_checksums_are_those_of_torchvision(theirs):
    assert datasets.voc.DATASET_YEAR_DICT == theirs.voc.DATASET_YEAR_DICT
    assert imagenet.ARCHIVE_META == theirs.imagenet.ARCHIVE_META
    assert datasets.Food101._origin.archives == ((theirs.Food101._URL, theirs.Food101._MD5),)
    assert datasets.OxfordIIITPet._origin.archives == tuple(theirs.OxfordIIITPet._RESOURCES)
    assert imagenette._CLASSES == theirs.Imagenette._WNID_TO_CLASS
    archives = {
        size: (f"{imagenette._ADDRESS}{name}.tgz", md5)
        for size, (name, md5) in imagenette._SIZES.items()
    }
    assert archives == theirs.Imagenette._ARCHIVES


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_item_is_a_picture_and_a_target(tmp_path, name):
    write, opened = LAYOUTS[name]
    write(tmp_path)
    dataset = opened(getattr(datasets, name), tmp_path)
    for index in range(len(dataset)):
        image, target = dataset[index]
        assert (image.mode, image.size) == ("RGB", (8, 6)) and target is not None
    with pytest.raises(IndexError):
        dataset[len(dataset)]


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_is_missing_is_named(tmp_path, name):
    with pytest.raises(RuntimeError, match=r"not found|not present") as error:
        LAYOUTS[name][1](getattr(datasets, name), tmp_path)
    assert str(tmp_path) in str(error.value)


# what each dataset of LAYOUTS brings, and the folder that it is unpacked to
BROUGHT = {
    "VOCDetection": [("VOCtrainval_11-May-2012.tar", ".")],
    "Food101": [("food-101.tar.gz", ".")],
    "OxfordIIITPet": [
        ("images.tar.gz", "oxford-iiit-pet"),
        ("annotations.tar.gz", "oxford-iiit-pet"),
    ],
    "EuroSAT": [("EuroSAT.zip", "eurosat")],
    "Imagenette": [("imagenette2-160.tgz", ".")],
    "Caltech256": [("256_ObjectCategories.tar", "caltech256")],
    "DTD": [("dtd-r1.0.1.tar.gz", "dtd")],
    "GTSRB": [("GTSRB_Final_Test_Images.zip", "gtsrb"), ("GTSRB_Final_Test_GT.zip", "gtsrb")],
}


@pytest.mark.parametrize("name", BROUGHT)
def test_what_is_missing_is_brought_once(tmp_path, monkeypatch, name):
    write, opened = LAYOUTS[name]
    brought = []

    def bring(url, root, *rest, **named):
        if not brought:
            write(tmp_path)
        brought.append((os.path.basename(url), os.path.relpath(root, tmp_path)))

    for module in (fetched, caltech, voc):
        monkeypatch.setattr(module, "download_and_extract_archive", bring)
    dataset = opened(functools.partial(getattr(datasets, name), download=True), tmp_path)
    assert len(dataset) and brought == BROUGHT[name]
    if name != "VOCDetection":  # which is unpacked again
        opened(functools.partial(getattr(datasets, name), download=True), tmp_path)
        assert brought == BROUGHT[name]


def test_voc_says_what_is_where(tmp_path):
    write_voc(tmp_path)
    targets = [target["annotation"] for _, target in datasets.VOCDetection(tmp_path)]
    assert [len(target["object"]) for target in targets] == [1, 2, 0]
    assert targets[0]["object"][0]["bndbox"] == dict(xmin="1", ymin="2", xmax="5", ymax="6")
    assert targets[1]["filename"] == "two.jpg" and "empty" not in targets[1]
    (tmp_path / "VOCdevkit/VOC2012/Annotations/one.xml").write_text("<annotation>")
    with pytest.raises(RuntimeError, match="is not XML"):
        datasets.VOCDetection(tmp_path)[0]
    for arguments in ({"year": "2001"}, {"image_set": "test"}):
        with pytest.raises(ValueError, match="Unknown value"):
            datasets.VOCDetection(tmp_path, **arguments)


def test_voc_of_2007_has_a_test_set(tmp_path):
    write_voc(tmp_path, "VOCdevkit/VOC2007", "test")
    dataset = datasets.VOCSegmentation(
        tmp_path, "2007", "test", transforms=lambda image, mask: (image.size, mask.mode)
    )
    assert dataset[1] == ((8, 6), "P") and dataset.filename == "VOCtest_06-Nov-2007.tar"


def test_coco_is_read_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pycocotools", None)
    monkeypatch.setitem(sys.modules, "pycocotools.coco", None)
    write_coco(tmp_path)
    found = datasets.CocoDetection(tmp_path, str(tmp_path / "all.json"))
    assert found.ids == [3, 5, 7] and len(found) == 3
    assert [[each["id"] for each in target] for _, target in found] == [[11], [], [10, 12]]
    captions = datasets.CocoCaptions(tmp_path, tmp_path / "all.json", target_transform=len)
    assert captions[2][1] == 2 and captions[0][0].size == (8, 6)
    assert datasets.CocoCaptions(tmp_path, tmp_path / "all.json")[2][1] == ["words 0", "words 2"]
    assert found.coco.loadCats([2])[0]["name"] == "c2" and found.coco.getCatIds() == [0, 1, 2]
    with pytest.raises(ValueError, match="Index must be of type integer, got <class 'str'>"):
        found["a"]


def test_pets_have_the_targets_that_were_asked_for(tmp_path):
    write_pets(tmp_path)
    assert datasets.OxfordIIITPet(tmp_path, "test")[1][1] == 1
    assert datasets.OxfordIIITPet(tmp_path, "test", [])[1][1] is None
    dataset = datasets.OxfordIIITPet(tmp_path, "test", "segmentation", target_transform=len)
    assert dataset.classes == ["Abyssinian", "Great Dane"]
    with pytest.raises(ValueError, match="Unknown value 'mood' for argument target_types"):
        datasets.OxfordIIITPet(tmp_path, "test", "mood")


def test_celeba_has_parts_and_kinds_of_targets(tmp_path):
    write_celeba(tmp_path)
    assert [
        len(celeba(datasets.CelebA, tmp_path, part)) for part in ("train", "Valid", "test")
    ] == [
        3,
        1,
        1,
    ]
    everything = celeba(datasets.CelebA, tmp_path, "all", "identity")
    assert [target.item() for _, target in everything] == [100, 101, 102, 103, 104]
    assert everything.attr.tolist()[1] == [0, 1, 0]
    assert celeba(datasets.CelebA, tmp_path, "all", [])[0][1] is None
    with pytest.raises(ValueError, match='Target type "mood" is not recognized'):
        celeba(datasets.CelebA, tmp_path, "all", "mood")[0]
    with pytest.raises(RuntimeError, match="target_transform is specified but"):
        celeba(datasets.CelebA, tmp_path, "all", [], None, len)
    (tmp_path / "celeba/identity_CelebA.txt").write_text("000001.jpg x\n")
    with pytest.raises(RuntimeError, match="is not a table of whole numbers"):
        celeba(datasets.CelebA, tmp_path, "all")


def test_caltech101_has_numbers_and_outlines(tmp_path, monkeypatch):
    write_caltech101(tmp_path)
    dataset = datasets.Caltech101(tmp_path)
    assert dataset.categories == ["Faces", "ant"] and [target for _, target in dataset] == [0, 1]
    assert dataset.annotation_categories == ["Faces_2", "ant"] and len(dataset) == 2
    assert "Target type: ['category']" in repr(dataset)
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(ImportError, match="pip install scipy"):
        datasets.Caltech101(tmp_path, "annotation")[0]
    with pytest.raises(RuntimeError, match="Dataset not found or corrupted"):
        datasets.Caltech101(tmp_path / "elsewhere")


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_caltech101_is_that_of_torchvision(tmp_path, theirs):
    scipy_io = pytest.importorskip("scipy.io")
    write_caltech101(tmp_path)
    for name in ("Faces_2", "ant"):
        (tmp_path / f"caltech101/Annotations/{name}").mkdir(parents=True)
        path = tmp_path / f"caltech101/Annotations/{name}/annotation_0001.mat"
        scipy_io.savemat(path, {"obj_contour": np.arange(6.0).reshape(2, 3)})
    kinds = ["category", "annotation"]
    ours, expected = (d.Caltech101(tmp_path, kinds) for d in (datasets, theirs))
    assert repr(ours) == repr(expected)
    for index in range(2):
        (image, (kind, outline)), (other, (wanted, points)) = ours[index], expected[index]
        assert image.tobytes() == other.tobytes() and image.mode == other.mode
        assert kind == wanted and np.array_equal(outline, points)


def test_traffic_signs_for_training_lie_in_folders(tmp_path):
    write_gtsrb(tmp_path)
    dataset = datasets.GTSRB(tmp_path)
    assert len(dataset) == 4 and [target for _, target in dataset] == [0, 0, 1, 1]


def test_partitions_of_textures_are_ten(tmp_path):
    for partition in (0, 11, "1"):
        with pytest.raises(ValueError, match="Parameter 'partition' should be an integer with"):
            datasets.DTD(tmp_path, partition=partition)


# -- wrapped for transforms.v2 ---------------------------------------------------------------------


def described(value):
    """Something that compares: kinds of tensors and their values, in both packages."""
    if hasattr(value, "tolist") and not hasattr(value, "tobytes"):
        more = (str(value.format), tuple(value.canvas_size)) if hasattr(value, "format") else ()
        return type(value).__name__, str(value.dtype), value.tolist(), *more
    if isinstance(value, dict):
        return {key: described(part) for key, part in value.items()}
    return tuple(map(described, value)) if isinstance(value, tuple) else plain(value)


WRAPPED = {
    "VOCSegmentation": lambda d, root: d.VOCSegmentation(root),
    "VOCDetection": lambda d, root: d.VOCDetection(root),
    "OxfordIIITPet": lambda d, root: d.OxfordIIITPet(root, "test", ["category", "segmentation"]),
    "Food": lambda d, root: d.ImageFolder(root / "food-101/images"),
}


def write_all(root):
    write_voc(root)
    write_pets(root)
    write_food(root)
    for path in (root / "VOCdevkit/VOC2012/Annotations").iterdir():
        names = path.read_text().replace("<name>o0", "<name>cat").replace("<name>o1", "<name>bus")
        path.write_text(names)
    (root / "VOCdevkit/VOC2012/ImageSets/Main/train.txt").write_text("one\ntwo\n")


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("name", WRAPPED)
def test_wrapped_items_are_those_of_torchvision(tmp_path, theirs, name):
    write_all(tmp_path)
    for keys in (None, "all", ["labels"]) if name == "VOCDetection" else (None,):
        ours, expected = (
            d.wrap_dataset_for_transforms_v2(WRAPPED[name](d, tmp_path), keys)
            for d in (datasets, theirs)
        )
        assert type(ours).__name__ == type(expected).__name__ and len(ours) == len(expected)
        for index in range(len(ours)):
            assert described(ours[index]) == described(expected[index])


def test_wrapped_datasets_give_boxes_that_transforms_know(tmp_path, monkeypatch):
    from flambeau.vision import tv_tensors

    monkeypatch.setitem(sys.modules, "pycocotools", None)
    write_all(tmp_path)
    dataset = datasets.VOCDetection(tmp_path, transforms=lambda image, target: (1, target))
    wrapped = datasets.wrap_dataset_for_transforms_v2(dataset)
    one, target = wrapped[1]
    assert one == 1 and isinstance(wrapped, datasets.VOCDetection) and wrapped.year == "2012"
    assert isinstance(target["boxes"], tv_tensors.BoundingBoxes)
    assert target["boxes"].tolist() == [[1, 2, 5, 6]] * 2 and target["labels"].tolist() == [8, 6]
    copy = pickle.loads(pickle.dumps(datasets.wrap_dataset_for_transforms_v2(plain_voc(tmp_path))))
    assert copy[0][1]["labels"].tolist() == [8]

    write_coco(tmp_path)
    coco = datasets.CocoDetection(tmp_path, tmp_path / "all.json")
    x, y, width, height = coco[0][1][0]["bbox"]
    _, target = datasets.wrap_dataset_for_transforms_v2(coco)[0]
    assert target["image_id"] == 3 and target["labels"].tolist() == [1]
    assert target["boxes"].tolist() == [[x, y, x + width, y + height]]
    assert datasets.wrap_dataset_for_transforms_v2(coco)[1][1] == {"image_id": 5}


def plain_voc(root):
    return datasets.VOCDetection(root)


def test_what_cannot_be_wrapped_is_said(tmp_path):
    wrap = datasets.wrap_dataset_for_transforms_v2
    with pytest.raises(TypeError, match="meant for subclasses of"):
        wrap([1])
    with pytest.raises(TypeError, match="No wrapper exists for dataset class FakeData"):
        wrap(datasets.FakeData(3))
    with pytest.raises(ValueError, match="`target_keys` can be None, 'all', or a collection"):
        wrap(datasets.Digits(), 3)
    with pytest.raises(ValueError, match="`target_keys` is currently only supported for"):
        wrap(datasets.Digits(), "all")
    write_voc(tmp_path)
    with pytest.raises(ValueError, match=r"Target keys \['x'\] are not available"):
        wrap(datasets.VOCDetection(tmp_path), ["x"])


# -- archives --------------------------------------------------------------------------------------


def test_imagenet_is_unpacked_from_its_archives(tmp_path, monkeypatch):
    scipy_io = pytest.importorskip("scipy.io")
    source = tmp_path / "source"
    data = source / "ILSVRC2012_devkit_t12/data"
    data.mkdir(parents=True)
    kinds = [("ILSVRC2012_ID", "f8"), ("WNID", "O"), ("words", "O"), ("gloss", "O")]
    rows = [(1, "n01", "tench, Tinca", "a fish", 0), (2, "n02", "goldfish", "a fish", 0)]
    rows.append((3, "n03", "fish", "fish", 2))
    table = np.array(rows, dtype=[*kinds, ("num_children", "f8")])
    scipy_io.savemat(data / "meta.mat", {"synsets": table})
    (data / "ILSVRC2012_validation_ground_truth.txt").write_text("2\n1\n2\n")
    for number in range(1, 4):
        picture(source / f"val/ILSVRC2012_val_{number}.JPEG", number)
    for wnid in ("n01", "n02"):
        picture(source / f"{wnid}/{wnid}_1.JPEG")
        (source / "train").mkdir(exist_ok=True)
        with tarfile.open(source / f"train/{wnid}.tar", "w") as tar:
            tar.add(source / wnid / f"{wnid}_1.JPEG", f"{wnid}_1.JPEG")
    root = tmp_path / "root"
    root.mkdir()
    sums = {}
    for part, folder in (("devkit", source), ("val", source / "val"), ("train", source / "train")):
        name = imagenet.ARCHIVE_META[part][0]
        with tarfile.open(root / name, "w:gz" if part == "devkit" else "w") as tar:
            members = [data.parent] if part == "devkit" else sorted(folder.iterdir())
            for member in members:
                tar.add(member, str(member.relative_to(folder)))
        sums[part] = (name, md5((root / name).read_bytes()))
    monkeypatch.setattr(imagenet, "ARCHIVE_META", sums)

    val = datasets.ImageNet(root, "val")
    assert val.wnids == ["n01", "n02"] and val.classes == [("tench", "Tinca"), ("goldfish",)]
    assert val.class_to_idx == {"tench": 0, "Tinca": 0, "goldfish": 1}
    assert [path[-6:] for path, _ in val.samples] == ["2.JPEG", "1.JPEG", "3.JPEG"]
    assert val.targets == [0, 1, 1] and "Split: val" in repr(val)
    train = datasets.ImageNet(root, transform=lambda image: image.size)
    assert train.targets == [0, 1] and train[0][0] == (8, 6)
    assert not list((root / "train").glob("*.tar"))


def test_archives_bring_what_was_missing(tmp_path, monkeypatch):
    """Downloads are tested elsewhere; here the archive lies where it would be downloaded to."""
    write_classes(tmp_path / "made/2750", ["River", "Forest"], ".jpg")
    folder = tmp_path / "root/eurosat"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "EuroSAT.zip", "w") as archive:
        for path in (tmp_path / "made").rglob("*.jpg"):
            archive.write(path, path.relative_to(tmp_path / "made"))
    origin = datasets.EuroSAT._origin
    archives = ((origin.archives[0][0], md5((folder / "EuroSAT.zip").read_bytes())),)
    monkeypatch.setattr(datasets.EuroSAT, "_origin", origin._replace(archives=archives))
    dataset = datasets.EuroSAT(tmp_path / "root", download=True)
    assert len(dataset) == 4 and dataset.classes == ["Forest", "River"]
    shutil.rmtree(folder / "2750")
    with pytest.raises(RuntimeError, match="Dataset not found"):
        datasets.EuroSAT(tmp_path / "root")
