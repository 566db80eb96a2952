"""Datasets of captions, faces, streets, nature and films: small copies of their layouts."""

import functools
import json

import numpy as np
import pytest

import flambeau as torch
from flambeau.vision import datasets
from tests.vision.dataset_files import md5

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def theirs():
    pytest.importorskip("torch")
    return pytest.importorskip("torchvision").datasets


def picture(path, shape=(6, 8, 3)):
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([sum(path.name.encode()), len(path.parent.name)])
    Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(path)
    return path


def text(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def checked(cls, root, **sums):
    """A class whose checksums are those of the small files; sums: attribute -> new value."""
    return type(cls.__name__, (cls,), sums)


# -- layouts: a function that writes one and gives what opens it -----------------------------------
def flickr8k(root):
    for name in ("11_a", "12_b"):
        picture(root / f"{name}.jpg")
    rows = "".join(
        f"<tr><td><a href='x'>http://flickr.com/photos/u/{n}/</a></td></tr>"
        f"<ul><li>  one of {n} </li><li>two of {n}</li></ul>"
        for n in (12, 11)
    )
    page = f"<html><table>{rows}<td>Image Not Found</td><li>lost</li></table><li>out</li></html>"
    return lambda cls: cls(root, str(text(root / "page.html", page)))


def flickr30k(root):
    for name in ("b.jpg", "a.jpg"):
        picture(root / name)
    lines = "b.jpg#0\tfirst\nb.jpg#1\tsecond one\na.jpg#0\tonly\n"
    return lambda cls: cls(str(root), str(text(root / "tokens.txt", lines)))


def sbu(root):
    text(root / "SBUCaptionedPhotoDataset.tar.gz", "packed")
    for name in ("1.jpg", "3.jpg"):
        picture(root / "dataset" / name)
    folder = root / "dataset"
    names = "http://x/1.jpg\nhttp://x/2.jpg\nhttp://x/3.jpg\n"
    text(folder / "SBU_captioned_photo_dataset_urls.txt", names)
    text(folder / "SBU_captioned_photo_dataset_captions.txt", "uno \ndos\ntres\n")
    found = md5((root / "SBUCaptionedPhotoDataset.tar.gz").read_bytes())
    return lambda cls: checked(cls, root, md5_checksum=found)(root, download=False)


def flowers(root):
    savemat = pytest.importorskip("scipy.io").savemat
    folder = root / "flowers-102"
    for number in range(1, 6):
        picture(folder / f"jpg/image_{number:05d}.jpg")
    savemat(folder / "imagelabels.mat", {"labels": [[77, 3, 1, 102, 5]]})
    savemat(folder / "setid.mat", {"trnid": [[2, 5]], "valid": [[1, 4]], "tstid": [[3, 2]]})
    names = {"image": "102flowers.tgz", "label": "imagelabels.mat", "setid": "setid.mat"}
    sums = {
        kind: (name, md5((folder / name).read_bytes()) if kind != "image" else "")
        for kind, name in names.items()
    }
    return lambda cls: checked(cls, root, _file_dict=sums)(root, "val")


def cars(root):
    savemat = pytest.importorskip("scipy.io").savemat
    folder = root / "stanford_cars"
    (folder / "devkit").mkdir(parents=True)
    kinds = [("bbox_x1", "i4"), ("class", "i4"), ("fname", "O")]
    rows = np.array([(1, 2, "00001.jpg"), (3, 1, "00002.jpg")], dtype=kinds)
    savemat(folder / "devkit/cars_train_annos.mat", {"annotations": rows})
    names = np.array(["AM General Hummer 2000", "Acura RL 2012"], dtype=object)
    savemat(folder / "devkit/cars_meta.mat", {"class_names": names})
    for name in ("00001.jpg", "00002.jpg"):
        picture(folder / "cars_train" / name)
    return lambda cls: cls(root)


def fer(root):
    rng = np.random.default_rng(3)
    rows = ["emotion, Usage, pixels"]
    for emotion, usage in ((3, "Training"), (6, "PublicTest"), (0, "PrivateTest")):
        pixels = " ".join(map(str, rng.integers(0, 256, 48 * 48)))
        rows.append(f"{emotion},{usage},{pixels}")
    path = text(root / "fer2013/icml_face_data.csv", "\n".join(rows) + "\n")
    sums = {"icml": (path.name, md5(path.read_bytes())), "fer": ("fer2013.csv", "")}
    return lambda cls: checked(cls, root, _RESOURCES=cls._RESOURCES | sums)(root, "test")


def kitti(root):
    home = root / "Kitti/raw/training"
    line = "Car 0.00 1 -1.57 1.0 2.5 30 40 1.5 1.6 3.7 -2 1 10 -1.6\n"
    for number in range(3):
        picture(home / f"image_2/{number:06d}.png")
        text(home / f"label_2/{number:06d}.txt", line * number)
    return lambda cls: cls(root)


FACES = {"Ann_Lee": 2, "Bo": 1, "Cy_Ray": 3}


def faces(root, lists):
    folder = root / "lfw-py"
    for name, count in FACES.items():
        for k in range(count):
            picture(folder / f"lfw_funneled/{name}/{name}_{k + 1:04d}.jpg")
    names = "".join(f"{name}\t{count}\n" for name, count in FACES.items())
    lists = lists | {"lfw-names.txt": names}
    sums = {name: md5(text(folder / name, content).read_bytes()) for name, content in lists.items()}
    packed = text(folder / "lfw-funneled.tgz", "packed")  # torchvision looks for it
    kinds = {"funneled": ("lfw_funneled", packed.name, md5(packed.read_bytes()))}
    return functools.partial(checked, root=root, checksums=sums, file_dict=kinds)


def people(root, split="train"):
    lists = {
        "peopleDevTrain.txt": "2\nAnn_Lee\t2\nBo\t1\n",
        "people.txt": "2\n1\nCy_Ray\t3\n2\nBo\t1\nAnn_Lee\t2\n",
    }
    known = faces(root, lists)
    return lambda cls: known(cls)(str(root), split)


def pairs(root, split="train"):
    train = "1\nAnn_Lee\t1\t2\nBo\t1\tCy_Ray\t3\n"
    folds = "2\t1\nAnn_Lee\t1\t2\nBo\t1\tCy_Ray\t3\nCy_Ray\t1\t3\nAnn_Lee\t2\tBo\t1\n"
    known = faces(root, {"pairsDevTrain.txt": train, "pairs.txt": folds})
    return lambda cls: known(cls)(str(root), split)


def places(root):
    content = {
        "categories_places365.txt": "/a/field 0\n/b/house 1\n",
        "places365_val.txt": "Places365_val_1.jpg 1\nPlaces365_val_2.jpg 0\n",
    }
    sums = {name: md5(text(root / name, lines).read_bytes()) for name, lines in content.items()}
    for number in (1, 2):
        picture(root / f"val_256/Places365_val_{number}.jpg")
    categories = ("categories_places365.txt", sums["categories_places365.txt"])
    lists = {"val": ("places365_val.txt", sums["places365_val.txt"])}
    return lambda cls: checked(cls, root, _CATEGORIES_META=categories, _FILE_LIST_META=lists)(
        root, "val", small=True
    )


def nature_2021(root):
    for name in (
        "00000_Animalia_Annelida_Clitellata_Haplotaxida_Lumbricidae_Lumbricus_terrestris",
        "00001_Animalia_Arthropoda_Insecta_Odonata_Aeshnidae_Aeshna_cyanea",
        "00002_Plantae_Tracheophyta_Pinopsida_Pinales_Pinaceae_Abies_alba",
    ):
        picture(root / "2021_valid" / name / "x.jpg")
    kinds = ["full", "kingdom", "order"]
    return lambda cls: cls(str(root), "2021_valid", kinds)


def nature_2018(root):
    for place in ("Aves/1", "Aves/0", "Fungi/2"):
        picture(root / "2018" / place / "x.jpg")
    return lambda cls: cls(root, "2018", "super")


FACE_LINES = """a/one.jpg
2
1 2 3 4 0 0 0 1 0 0
5 6 7 8 1 0 1 0 2 1
b/none.jpg
0
0 0 0 0 0 0 0 0 0 0
"""


def wider(root):
    folder = root / "widerface"
    text(folder / "wider_face_split/wider_face_train_bbx_gt.txt", FACE_LINES)
    for name in ("a/one.jpg", "b/none.jpg"):
        picture(folder / "WIDER_train/images" / name)
    for name in ("WIDER_val", "WIDER_test"):
        (folder / name).mkdir()
    return lambda cls: cls(root)


def city(root, kinds=("instance", "semantic", "polygon", "color")):
    start = "aachen/aachen_000000_000019"
    picture(root / f"leftImg8bit/train/{start}_leftImg8bit.png")
    for ending in ("instanceIds.png", "labelIds.png", "color.png"):
        picture(root / f"gtFine/train/{start}_gtFine_{ending}", (6, 8))
    outline = {"imgHeight": 6, "objects": [{"label": "car", "polygon": [[1, 2], [3, 4]]}]}
    text(root / f"gtFine/train/{start}_gtFine_polygons.json", json.dumps(outline))
    return lambda cls: cls(root, target_type=list(kinds))


def outlines(root, mode="segmentation"):
    io, sparse = pytest.importorskip("scipy.io"), pytest.importorskip("scipy.sparse")
    (root / "cls").mkdir()
    text(root / "val.txt", "2008_1\n2008_2\n")
    rng = np.random.default_rng(5)
    for name in ("2008_1", "2008_2"):
        picture(root / f"img/{name}.jpg")
        planes = np.empty((20, 1), dtype=object)
        for k in range(20):
            planes[k, 0] = sparse.csc_matrix(rng.integers(0, 2, (6, 8)).astype(float))
        classes = rng.integers(0, 21, (6, 8)).astype(np.uint8)
        io.savemat(root / f"cls/{name}.mat",
                   {"GTcls": {"Boundaries": planes, "Segmentation": classes}})  # fmt: skip
    return lambda cls: cls(root, "val", mode)


def tour(root, train=False):
    folder = root / "liberty"
    picture(folder / "patches0000.bmp", (1024, 1024))
    text(folder / "info.txt", "".join(f"{k // 2} 0\n" for k in range(6)))
    lines = "0 0 0 1 0 0 0\n1 0 0 4 2 0 0\n"
    text(folder / "m50_100000_100000_0.txt", lines)
    lengths = {"liberty": 6}
    return lambda cls: _fresh(checked(cls, root, lens=lengths), root, train)


def _fresh(cls, root, train):
    (root / "liberty.pt").unlink(missing_ok=True)
    return cls(root, "liberty", train)


def films(root, split=None):
    (root / "MovingMNIST").mkdir()
    frames = np.random.default_rng(0).integers(0, 256, (20, 3, 64, 64), dtype=np.uint8)
    np.save(root / "MovingMNIST/mnist_test_seq.npy", frames)
    return lambda cls: cls(root, split, 4)


def pfm(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width, _ = values.shape
    path.write_bytes(b"PF\n%d %d\n-1.0\n" % (width, height) + values[::-1].tobytes())


def things(root, **options):
    rng = np.random.default_rng(1)
    for place in ("A/0000", "B/0001"):
        for number in range(3):
            for kind in ("clean", "final"):
                picture(root / f"FlyingThings3D/frames_{kind}pass/TRAIN/{place}/left/{number}.png")
            for way in ("into_future", "into_past"):
                values = rng.standard_normal((6, 8, 3)).astype("<f4")
                flows = root / "FlyingThings3D/optical_flow/TRAIN" / place / way / "left"
                pfm(flows / f"{number}.pfm", values)
    return lambda cls: cls(root, **options)


# name: layout
LAYOUTS = {
    "Flickr8k": flickr8k,
    "Flickr30k": flickr30k,
    "SBU": sbu,
    "Flowers102": flowers,
    "StanfordCars": cars,
    "FER2013": fer,
    "Kitti": kitti,
    "LFWPeople": people,
    "LFWPeople 10": functools.partial(people, split="10fold"),
    "LFWPairs": pairs,
    "LFWPairs 10": functools.partial(pairs, split="10fold"),
    "Places365": places,
    "INaturalist": nature_2021,
    "INaturalist 2018": nature_2018,
    "WIDERFace": wider,
    "Cityscapes": city,
    "SBDataset": outlines,
    "SBDataset edges": functools.partial(outlines, mode="boundaries"),
    "PhotoTour": tour,
    "PhotoTour train": functools.partial(tour, train=True),
    "MovingMNIST": films,
    "MovingMNIST train": functools.partial(films, split="train"),
    "MovingMNIST test": functools.partial(films, split="test"),
    "FlyingThings3D": things,
    "FlyingThings3D both": functools.partial(things, pass_name="both"),
}
LISTS = """classes class_to_idx images targets ids annotations captions photos categories_index
categories_map all_categories index pair_names means stds urls split_ratio""".split()


def plain(value):
    """Something that compares: pictures become their mode and bytes."""
    if hasattr(value, "mode") and hasattr(value, "tobytes"):
        return value.mode, value.size, value.tobytes()
    if hasattr(value, "tolist"):
        kind = str(value.dtype).replace("flambeau", "torch")
        return kind, tuple(value.shape), value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:Image.Image.getdata:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("name", LAYOUTS)
def test_items_are_those_of_torchvision(tmp_path, theirs, name):
    opened = LAYOUTS[name](tmp_path)
    ours, expected = (opened(getattr(d, name.split()[0])) for d in (datasets, theirs))
    assert repr(ours) == repr(expected) and len(ours) == len(expected) > 0
    for index in range(len(ours)):
        assert plain(ours[index]) == plain(expected[index])
    for attribute in LISTS:
        assert hasattr(ours, attribute) == hasattr(expected, attribute), attribute
        if hasattr(ours, attribute):
            assert getattr(ours, attribute) == getattr(expected, attribute)


@pytest.mark.oracle
def test_addresses_and_checksums_are_those_of_torchvision(theirs):
    names = "_file_dict file_dict checksums _RESOURCES _IMAGES_META _FILE_LIST_META FILE_LIST url"
    names += " md5 md5_checksum _URL urls data_url resources voc_train_url voc_split_md5 classes"
    for name in {n.split()[0] for n in LAYOUTS}:
        ours, expected = getattr(datasets, name), getattr(theirs, name)
        for attribute in names.split():
            if hasattr(expected, attribute):
                assert getattr(ours, attribute) == getattr(expected, attribute), (name, attribute)


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_item_can_be_read_and_there_are_no_more(tmp_path, name):
    dataset = LAYOUTS[name](tmp_path)(getattr(datasets, name.split()[0]))
    items = [dataset[index] for index in range(len(dataset))]
    assert items and name.split()[0] in repr(dataset)
    with pytest.raises(IndexError):
        dataset[len(dataset)]


def opened(name, root):
    return LAYOUTS[name](root)(getattr(datasets, name.split()[0]))


def test_captions_belong_to_their_pictures(tmp_path):
    found = opened("Flickr30k", tmp_path)
    assert [captions for _, captions in found] == [["only"], ["first", "second one"]]


def test_pages_without_a_picture_are_left_out(tmp_path):
    found = opened("Flickr8k", tmp_path)
    assert [captions for _, captions in found] == [
        ["one of 11", "two of 11"],
        ["one of 12", "two of 12"],
    ]


def test_photographs_that_are_gone_are_left_out(tmp_path):
    assert [caption for _, caption in opened("SBU", tmp_path)] == ["uno", "tres"]


def test_things_on_streets_have_boxes(tmp_path):
    counts = sorted(len(target) for _, target in opened("Kitti", tmp_path))
    assert counts == [0, 1, 2]
    target = next(target[0] for _, target in opened_again(tmp_path) if target)
    assert target["bbox"] == [1.0, 2.5, 30.0, 40.0] and target["occluded"] == 1
    assert target["dimensions"] == [1.5, 1.6, 3.7] and target["rotation_y"] == -1.6


def opened_again(root):
    return datasets.Kitti(root)


def test_faces_are_grouped_by_folds(tmp_path):
    found = opened("LFWPeople 10", tmp_path)
    assert found.targets == [2, 2, 2, 1, 0, 0] and len(found.class_to_idx) == 3
    assert [row[2] for row in opened("LFWPairs 10", tmp_path / "pairs")] == [1, 0, 1, 0]


def test_nature_has_a_place_for_everything(tmp_path):
    found = opened("INaturalist", tmp_path)
    assert [target for _, target in found] == [(0, 0, 0), (1, 0, 1), (2, 1, 2)]
    assert found.category_name("order", 2) == "Pinales"
    assert found.category_name("full", 1).endswith("cyanea")
    with pytest.raises(ValueError, match="Invalid category"):
        found.category_name("order", 7)


def test_faces_in_photographs_are_rows(tmp_path):
    (_, many), (_, none) = opened("WIDERFace", tmp_path)
    assert many["bbox"].tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert many["pose"].tolist() == [0, 2] and none["bbox"].shape == (1, 4)


def test_films_are_cut_in_two(tmp_path):
    whole = opened("MovingMNIST", tmp_path)
    parts = [datasets.MovingMNIST(tmp_path, part, 4) for part in ("train", "test")]
    assert whole[1].shape == (20, 1, 64, 64) and whole.data.dtype == torch.uint8
    assert torch.equal(torch.cat([parts[0][1], parts[1][1]]), whole[1])
    with pytest.raises(ValueError, match="split_ratio"):
        datasets.MovingMNIST(tmp_path, "train", 20)


def test_flow_back_in_time_begins_with_the_later_frame(tmp_path):
    found = opened("FlyingThings3D", tmp_path)
    assert len(found) == 8 and found[0][2].shape == (2, 6, 8)
    ways = [[path[-5] for path in pair] for pair in found._image_list]
    assert ways == [["0", "1"], ["1", "2"]] * 2 + [["1", "0"], ["2", "1"]] * 2
    assert [path[-5] for path in found._flow_list] == ["0", "1"] * 2 + ["1", "2"] * 2


@pytest.mark.parametrize("name", ["SBU", "Flowers102", "StanfordCars", "FER2013", "Kitti"])
def test_what_is_missing_is_named(tmp_path, name):
    options = {"download": False} if name == "SBU" else {}
    with pytest.raises(RuntimeError, match="not found") as error:
        getattr(datasets, name)(tmp_path, **options)
    assert str(tmp_path) in str(error.value)


def test_unknown_splits_are_refused(tmp_path):
    for name in ("Flowers102", "StanfordCars", "FER2013", "LFWPeople", "Places365", "WIDERFace"):
        with pytest.raises(ValueError, match="Unknown value 'dev'"):
            getattr(datasets, name)(tmp_path, "dev")
    with pytest.raises(ValueError, match="mode 'coarse'"):
        datasets.Cityscapes(tmp_path, "test", "coarse")
