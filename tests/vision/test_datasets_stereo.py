"""Datasets for two eyes, and those that need packages of their own: small copies of layouts."""

import gzip
import json
import pathlib
import sys
import types

import numpy as np
import pytest

from flambeau.vision import datasets
from flambeau.vision.datasets import utils
from tests.vision.dataset_files import md5

Image = pytest.importorskip("PIL.Image")
SHAPE = (4, 5)


def saved(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)
    return array


def photograph(path):
    rng = np.random.default_rng(sum(str(path.name).encode()))
    return saved(path, rng.integers(0, 256, (*SHAPE, 3), dtype=np.uint8))


def levels(path, seed=0):
    """A picture of 16 bits."""
    rng = np.random.default_rng([seed, sum(path.name.encode())])
    return saved(path, rng.integers(0, 1 << 16, SHAPE, dtype=np.uint16))


def pfm(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width = array.shape
    head = f"Pf\n{width} {height}\n-1.0\n".encode()
    path.write_bytes(head + np.flipud(array).astype("<f4").tobytes())
    return array


def floats(path, seed=0):
    return pfm(path, np.random.default_rng([seed, 7]).uniform(-50, 50, SHAPE).astype("f4"))


# -- layouts: a function that writes one and gives how to open it, the first disparity, its mask --


def carla(root):
    for scene in ("a", "b"):
        folder = root / "carla-highres/trainingF" / scene
        photograph(folder / "im0.png"), photograph(folder / "im1.png")
        found = [floats(folder / f"disp{k}GT.pfm", len(scene) + k) for k in (0, 1)]
    return datasets.CarlaStereo, {}, np.abs(found[0]), "none"


def kitti2012(root):
    for name in ("1", "2"):
        for eye in ("colored_0", "colored_1"):
            photograph(root / "Kitti2012/training" / eye / f"{name}_10.png")
            photograph(root / "Kitti2012/testing" / eye / f"{name}_10.png")
        found = levels(root / f"Kitti2012/training/disp_noc/{name}.png", int(name))
    first = np.asarray(Image.open(root / "Kitti2012/training/disp_noc/1.png"))
    assert found.dtype == first.dtype == np.uint16
    return datasets.Kitti2012Stereo, {}, first / np.float32(256), None


def kitti2015(root):
    for name in ("000000_10", "000000_11", "000001_10", "000001_11"):
        for eye in ("image_2", "image_3"):
            photograph(root / "Kitti2015/training" / eye / f"{name}.png")
    for name in ("000000_10", "000001_10"):
        for k in (0, 1):
            levels(root / f"Kitti2015/training/disp_occ_{k}/{name}.png", k)
    first = np.asarray(Image.open(root / "Kitti2015/training/disp_occ_0/000000_10.png"))
    return datasets.Kitti2015Stereo, {}, first / np.float32(256), None


def sintel(root):
    folder = root / "Sintel/training"
    for name in ("f1.png", "f2.png"):
        for side in ("final_left", "final_right"):
            photograph(folder / side / "alley" / name)
        colours = photograph(folder / "disparities/alley" / name)
        masks = [
            saved(
                folder / kind / "alley" / name, np.random.default_rng(k).integers(0, 2, SHAPE, "u1")
            )
            for k, kind in enumerate(("occlusions", "outofframe"))
        ]
    colours = np.asarray(Image.open(folder / "disparities/alley/f1.png")).astype(np.float32)
    wanted = colours[..., 0] * 4 + colours[..., 1] / 64 + colours[..., 2] / 2**14
    return datasets.SintelStereo, {}, wanted, (masks[0] == 0) & (masks[1] == 0)


def instereo2k(root):
    for scene in ("a", "b"):
        for side in ("left", "right"):
            photograph(root / "InStereo2k/train" / scene / f"{side}.png")
            levels(root / "InStereo2k/train" / scene / f"{side}_disp.png", ord(scene))
    first = np.asarray(Image.open(root / "InStereo2k/train/a/left_disp.png"))
    return datasets.InStereo2k, {}, first / np.float32(1024), "none"


def crestereo(root):
    for k, kind in enumerate(("hole", "reflective", "shapenet", "tree")):
        for side in ("left", "right"):
            photograph(root / "CREStereo" / kind / f"img_{side}.jpg")
            levels(root / "CREStereo" / kind / f"img_{side}.disp.png", k)
    first = np.asarray(Image.open(root / "CREStereo/shapenet/img_left.disp.png"))
    return datasets.CREStereo, {}, first / np.float32(32), None


def falling_things(root):
    folder = root / "FallingThings/mixed/kitchen"
    for name in ("1", "2"):
        for side in ("left", "right"):
            photograph(folder / f"{name}.{side}.jpg")
            levels(folder / f"{name}.{side}.depth.png", int(name))
    settings = {"camera_settings": [{"intrinsic_settings": {"fx": 768.16}}]}
    (folder / "_camera_settings.json").write_text(json.dumps(settings))
    depth = np.asarray(Image.open(folder / "1.left.depth.png")).astype(np.float32)
    return datasets.FallingThingsStereo, dict(variant="mixed"), 6 * 768.16 * 100 / depth, "none"


def scene_flow(root):
    folder = root / "SceneFlow/Driving"
    below = "15mm/forwards/fast"
    for side in ("left", "right"):
        for name in ("1", "2"):
            for kind in ("clean", "final"):
                photograph(folder / f"frames_{kind}pass" / below / side / f"{name}.png")
            found = floats(folder / "disparity" / below / side / f"{name}.pfm", int(name))
            first = found if (side, name) == ("left", "1") else first  # noqa: F821
    return (
        datasets.SceneFlowStereo,
        dict(variant="Driving", pass_name="both"),
        np.abs(first),
        "none",
    )


def eth3d(root):
    folder = root / "ETH3D"
    for scene in ("a", "b"):
        for part in ("training", "testing"):
            for eye in (0, 1):
                photograph(folder / f"two_view_{part}" / scene / f"im{eye}.png")
        found = floats(folder / "two_view_training_gt" / scene / "disp0GT.pfm")
        mask = np.random.default_rng(3).integers(0, 2, SHAPE, "u1") * 255
        saved(folder / "two_view_training_gt" / scene / "mask0nocc.png", mask)
    return datasets.ETH3DStereo, {}, np.abs(found), mask > 0


def middlebury(root):
    folder = root / "Middlebury2014/train"
    for scene in ("Piano", "Pipes"):
        for kind in ("perfect", "imperfect"):
            there = folder / f"{scene}-{kind}"
            for name in ("im0", "im1", "im1E", "im1L"):
                photograph(there / f"{name}.png")
            known = np.random.default_rng(5).uniform(1, 9, SHAPE).astype("f4")
            known[1, 2] = np.inf
            for k in (0, 1):
                pfm(there / f"disp{k}.pfm", known)
    mask = np.isfinite(known)
    return datasets.Middlebury2014Stereo, dict(calibration="both"), np.where(mask, known, 0), mask


LAYOUTS = {
    f.__name__: f
    for f in (
        carla, kitti2012, kitti2015, sintel, instereo2k, crestereo, falling_things, scene_flow,
        eth3d, middlebury,
    )
}  # fmt: skip
COUNTS = {"crestereo": 4, "scene_flow": 4, "middlebury": 4}


@pytest.mark.parametrize("name", LAYOUTS)
def test_items_of_two_eyes(name, tmp_path):
    cls, options, wanted, mask = LAYOUTS[name](tmp_path)
    found = cls(tmp_path, **options)
    assert len(found) == COUNTS.get(name, 2) and type(found).__name__ in datasets.__all__
    left, right, disparity, *rest = found[0]
    assert left.size == right.size == SHAPE[::-1] and left.mode == "RGB"
    assert disparity.dtype == np.float32 and disparity.shape == (1, *SHAPE)
    np.testing.assert_allclose(disparity[0], wanted, rtol=1e-6)
    if isinstance(mask, str):
        assert rest == []
    elif mask is None:
        assert rest == [None]
    else:
        np.testing.assert_array_equal(rest[0], mask)


@pytest.mark.parametrize("name", LAYOUTS)
def test_transforms_see_pairs_and_may_make_masks(name, tmp_path):
    cls, options, _, _ = LAYOUTS[name](tmp_path)
    seen = []

    def transforms(images, disparities, masks):
        seen.append((images, disparities, masks))
        return images, disparities, (np.ones(SHAPE, bool), None)

    item = cls(tmp_path, transforms=transforms, **options)[0]
    assert len(item) == 4 and item[3].all()
    assert [len(part) for part in seen[0]] == [2, 2, 2]


@pytest.mark.parametrize("name", ["kitti2012", "eth3d"])
def test_test_splits_have_no_disparities(name, tmp_path):
    cls, _, _, _ = LAYOUTS[name](tmp_path)
    assert cls(tmp_path, split="test")[0][2:] == (None, None)


def test_what_is_wrong_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="No files found"):
        datasets.CarlaStereo(tmp_path)
    with pytest.raises(ValueError, match="Unknown value 'both' for argument split"):
        datasets.Kitti2012Stereo(tmp_path, split="both")
    with pytest.raises(ValueError, match="no calibration settings"):
        datasets.Middlebury2014Stereo(tmp_path, split="test")
    with pytest.raises(ValueError, match="has calibration settings, however None"):
        datasets.Middlebury2014Stereo(tmp_path, calibration=None)
    with pytest.raises(FileNotFoundError, match="The train directory was not found"):
        datasets.Middlebury2014Stereo(tmp_path)
    carla(tmp_path)
    (tmp_path / "carla-highres/trainingF/b/im1.png").unlink()
    with pytest.raises(ValueError, match="equal number"):
        datasets.CarlaStereo(tmp_path)


def test_other_light(tmp_path):
    middlebury(tmp_path)
    plain = datasets.Middlebury2014Stereo(tmp_path)
    other = datasets.Middlebury2014Stereo(tmp_path, use_ambient_views=True)
    lefts = {other[0][0].tobytes() for _ in range(30)}
    rights = {other[0][1].tobytes() for _ in range(30)}
    assert lefts == {plain[0][0].tobytes()} and len(rights) == 3


# -- databases ------------------------------------------------------------------------------------


def test_packages_that_are_missing_are_named(tmp_path, monkeypatch):
    for name in ("lmdb", "h5py"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install lmdb"):
        datasets.LSUN(tmp_path, classes=["bedroom_train"])
    with pytest.raises(RuntimeError, match="pip install h5py"):
        datasets.PCAM(tmp_path)


class Database:
    """What lmdb.open gives, over a folder of files."""

    def __init__(self, folder, **options):
        assert options["readonly"] and not options["lock"]
        self.files = {
            p.name.encode(): p.read_bytes() for p in sorted(pathlib.Path(folder).iterdir())
        }

    def begin(self):
        return self

    __enter__ = cursor = lambda self: self

    def __exit__(self, *error):
        return None

    def iternext(self, keys, values):
        return iter(self.files)

    def get(self, key):
        return self.files[key]


def test_lsun(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lmdb", types.SimpleNamespace(open=Database))
    kept = {}
    for kind, count in (("tower_val", 2), ("bridge_val", 3)):
        for k in range(count):
            kept[kind, k] = photograph(tmp_path / f"{kind}_lmdb" / f"{k}.png")
    found = datasets.LSUN(tmp_path, ["tower_val", "bridge_val"], target_transform=lambda n: n * 10)
    assert len(found) == 5 and [found[k][1] for k in range(5)] == [0, 0, 10, 10, 10]
    np.testing.assert_array_equal(np.asarray(found[3][0]), kept["bridge_val", 1])
    assert "Classes: ['tower_val', 'bridge_val']" in repr(found)
    for wrong in (["desk_val"], ["tower_all"], "all"):
        with pytest.raises(ValueError, match="Unknown value"):
            datasets.LSUN(tmp_path, wrong)
    with pytest.raises(ValueError, match="Expected type str"):
        datasets.LSUN(tmp_path, 3)


class Arrays(dict):
    """What h5py.File gives, over a file of NumPy."""

    def __init__(self, path):
        with open(path, "rb") as file:
            super().__init__(np.load(file))

    __enter__ = lambda self: self

    def __exit__(self, *error):
        return None


def test_pcam(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", types.SimpleNamespace(File=Arrays))
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
    labels = np.array([1, 0, 1], np.uint8).reshape(3, 1, 1, 1)
    packed = {}
    for part, array in (("x", images), ("y", labels)):
        np.savez(tmp_path / "one.npz", **{part: array})
        packed[part] = gzip.compress((tmp_path / "one.npz").read_bytes())
    sums = {"val": ("valid", md5(packed["x"]), md5(packed["y"]))}
    small = type("PCAM", (datasets.PCAM,), {"_FILES": sums})
    with pytest.raises(RuntimeError, match="not found"):
        small(tmp_path, "val")

    def fetch(url, root, filename, md5_):
        pathlib.Path(root).mkdir(exist_ok=True)
        (pathlib.Path(root) / filename).write_bytes(packed[filename[-7]])
        assert url.endswith(filename) and utils.check_integrity(pathlib.Path(root) / filename, md5_)

    monkeypatch.setattr("flambeau.vision.datasets.pcam.download_url", fetch)
    found = small(tmp_path, "val", download=True, target_transform=lambda n: n + 5)
    assert len(found) == 3 and [found[k][1] for k in range(3)] == [6, 5, 6]
    np.testing.assert_array_equal(np.asarray(found[1][0]), images[1])
    with pytest.raises(ValueError, match="Unknown value 'train'"):
        small(tmp_path, "train")
