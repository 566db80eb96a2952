"""download=True against a server on this machine: broken mirrors, wrong files, cut connections."""

import gzip
import http.server
import inspect
import io
import re
import socket
import tarfile
import threading
import zipfile
from urllib.error import HTTPError, URLError

import numpy as np
import pytest

from flambeau.vision import datasets
from flambeau.vision.datasets import utils
from tests.vision.dataset_files import (
    SPLITS,
    cifar_class,
    cifar_files,
    emnist_files,
    images_and_labels,
    md5,
    mnist_files,
    qmnist_files,
)


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `server.files`, with ranges; breaks off where `server.breaks` says, once each."""

    def do_GET(self):
        server = self.server
        wanted = self.headers.get("Range")
        server.seen.append((self.path, wanted))
        content = server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", f'"{md5(content)}"')
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start : server.breaks.pop(self.path, len(content))])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.files, server.seen, server.breaks = {}, [], {}
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def nowhere():
    """An address where nobody answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{free.getsockname()[1]}/"


def paths(server):
    return [path for path, _ in server.seen]


def packed_mnist():
    files = mnist_files().items()
    return {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in files}


def mnist_class(packed, mirrors):
    resources = [(name, md5(packed[name])) for name, _ in datasets.MNIST.resources]
    return type("MNIST", (datasets.MNIST,), {"mirrors": mirrors, "resources": resources})


def assert_whole(dataset):
    images, labels = images_and_labels(SPLITS["train"])
    assert np.array_equal(dataset.data.numpy(), images)
    assert dataset.targets.tolist() == labels.tolist()


# -- MNIST and its mirrors -------------------------------------------------------------------------


def test_files_come_from_the_first_mirror_that_has_them(server, tmp_path, nowhere, capfd):
    packed = packed_mnist()
    server.files = {f"/second/{name}": content for name, content in packed.items()}
    cls = mnist_class(packed, [nowhere, f"{server.url}/first/", f"{server.url}/second/"])
    assert_whole(cls(tmp_path, download=True))
    assert len(server.seen) == 8  # every file is asked for at both
    names = {path.name for path in (tmp_path / "MNIST/raw").iterdir()}
    assert names == {*packed, *(name.removesuffix(".gz") for name in packed)}
    assert "100%" in capfd.readouterr().err

    server.seen.clear()
    assert_whole(cls(tmp_path, download=True))
    assert not server.seen


def test_a_mirror_with_wrong_files_is_passed_over(server, tmp_path):
    packed = packed_mnist()
    for name, content in packed.items():
        server.files[f"/wrong/{name}"] = gzip.compress(b"another file", mtime=0)
        server.files[f"/right/{name}"] = content
    cls = mnist_class(packed, [f"{server.url}/wrong/", f"{server.url}/right/"])
    assert_whole(cls(tmp_path, download=True))


def test_a_transfer_that_breaks_goes_on_where_it_broke(server, tmp_path):
    packed = packed_mnist()
    server.files = {f"/{name}": content for name, content in packed.items()}
    server.breaks = {f"/{name}": 30 for name in packed}
    assert_whole(mnist_class(packed, [f"{server.url}/"])(tmp_path, download=True))
    assert [wanted for _, wanted in server.seen] == [None, "bytes=30-"] * 4


def test_where_no_mirror_helps_all_is_said(server, tmp_path, nowhere):
    packed = packed_mnist()
    cls = mnist_class(packed, [nowhere, f"{server.url}/"])
    with pytest.raises(RuntimeError) as error:
        cls(tmp_path, download=True)
    text = str(error.value)
    assert text.startswith(
        f"Error downloading train-images-idx3-ubyte.gz:\nTried {nowhere}, got:\n"
    )
    assert f"Tried {server.url}/, got:\n" in text and "404" in text
    assert all(name in text for name in packed) and str(tmp_path / "MNIST/raw") in text
    assert list((tmp_path / "MNIST/raw").iterdir()) == []


def test_files_put_there_by_hand_are_enough(server, tmp_path, nowhere):
    packed = packed_mnist()
    folder = tmp_path / "MNIST/raw"
    folder.mkdir(parents=True)
    for name, content in packed.items():
        (folder / name).write_bytes(content)
    assert_whole(mnist_class(packed, [nowhere])(tmp_path))
    assert_whole(mnist_class(packed, [nowhere])(tmp_path, download=True))


def test_a_damaged_file_that_was_there_is_fetched_again(server, tmp_path):
    packed = packed_mnist()
    server.files = {f"/{name}": content for name, content in packed.items()}
    folder = tmp_path / "MNIST/raw"
    folder.mkdir(parents=True)
    for name, content in packed.items():
        (folder / name).write_bytes(content[:50] if "train-images" in name else content)
    assert_whole(mnist_class(packed, [f"{server.url}/"])(tmp_path, download=True))
    assert paths(server) == ["/train-images-idx3-ubyte.gz"]


def test_a_packed_file_that_is_wrong_inside_leaves_nothing_behind(server, tmp_path):
    packed = packed_mnist()
    name = "train-images-idx3-ubyte.gz"
    packed[name] = packed[name][:-9]
    server.files = {f"/{name}": content for name, content in packed.items()}
    with pytest.raises(RuntimeError, match="is cut short or damaged"):
        mnist_class(packed, [f"{server.url}/"])(tmp_path, download=True)
    assert [path.name for path in (tmp_path / "MNIST/raw").iterdir()] == [name]


# -- EMNIST, QMNIST, CIFAR -------------------------------------------------------------------------


def test_emnist_comes_in_one_archive(server, tmp_path):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, content in emnist_files(datasets.EMNIST.classes_split_dict).items():
            file.writestr(f"gzip/{name}.gz", gzip.compress(content))
        file.writestr("gzip/notes.txt", "about it")
    content = archive.getvalue()
    server.files["/gzip.zip"] = content
    addresses = {"url": f"{server.url}/gzip.zip", "md5": md5(content)}
    cls = type("EMNIST", (datasets.EMNIST,), addresses)
    for split in cls.splits:
        assert len(cls(tmp_path, split, train=False, download=True)) == 4
    assert paths(server) == ["/gzip.zip"]
    assert not (tmp_path / "EMNIST/raw/gzip").exists()


def test_qmnist_brings_only_what_was_asked_for(server, tmp_path):
    packed = {n: gzip.compress(c) for n, c in qmnist_files("qmnist-train", 5).items()}
    server.files = {f"/{name}.gz": content for name, content in packed.items()}
    train = [(f"{server.url}/{name}.gz", md5(content)) for name, content in packed.items()]
    resources = {**datasets.QMNIST.resources, "train": train}
    dataset = type("QMNIST", (datasets.QMNIST,), {"resources": resources})(tmp_path, download=True)
    assert len(dataset) == 5 and len(server.seen) == 2


def cifar_archive(cls, files):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{cls.base_folder}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return archive.getvalue()


@pytest.mark.parametrize("name", ["CIFAR10", "CIFAR100"])
def test_cifar_comes_in_one_archive(server, tmp_path, name):
    base = getattr(datasets, name)
    files = cifar_files(base)
    content = cifar_archive(base, files)
    server.files["/archive.tar.gz"] = content
    server.breaks["/archive.tar.gz"] = len(content) // 2
    url = f"{server.url}/archive.tar.gz"
    cls = cifar_class(base, files, url=url, tgz_md5=md5(content))
    assert len(cls(tmp_path, train=False, download=True)) == 4 + len(base.train_list)
    assert paths(server) == ["/archive.tar.gz"] * 2
    cls(tmp_path, download=True)
    assert len(server.seen) == 2 and (tmp_path / base.filename).is_file()


def test_without_a_network_the_file_its_address_and_its_place_are_named(tmp_path, nowhere):
    files = cifar_files(datasets.CIFAR10)
    cls = cifar_class(datasets.CIFAR10, files, url=f"{nowhere}cifar-10-python.tar.gz")
    with pytest.raises(URLError) as error:
        cls(tmp_path, download=True)
    text = str(error.value)
    assert f"{nowhere}cifar-10-python.tar.gz" in text and "refused" in text
    assert f"put it at {tmp_path / 'cifar-10-python.tar.gz'}" in text


# -- the functions ---------------------------------------------------------------------------------


def test_a_file_is_fetched_once_and_again_if_it_is_wrong(server, tmp_path):
    server.files["/a.bin"] = b"content"
    url = f"{server.url}/a.bin"
    utils.download_url(url, str(tmp_path / "new"))
    utils.download_url(url, tmp_path / "new", md5=md5(b"content"))
    assert len(server.seen) == 1
    path = tmp_path / "new/a.bin"
    assert path.read_bytes() == b"content"
    path.write_bytes(b"changed")
    utils.download_url(url, tmp_path / "new", "a.bin", md5(b"content"))
    assert path.read_bytes() == b"content"
    utils.download_url(url, tmp_path, filename="b.bin")
    assert (tmp_path / "b.bin").read_bytes() == b"content"


def test_a_wrong_file_is_not_left_behind(server, tmp_path):
    server.files["/a.bin"] = b"content"
    with pytest.raises(RuntimeError, match=re.escape("File not found or corrupted.")) as error:
        utils.download_url(f"{server.url}/a.bin", tmp_path, md5=md5(b"other"))
    assert md5(b"content") in str(error.value) and not list(tmp_path.iterdir())


def test_what_the_server_does_not_have_is_an_http_error(server, tmp_path):
    with pytest.raises(HTTPError, match="404"):
        utils.download_url(f"{server.url}/none", tmp_path)
    with pytest.raises(ValueError, match="does not end with the name of a file"):
        utils.download_url(f"{server.url}/", tmp_path)


def test_an_archive_is_fetched_and_unpacked(server, tmp_path):
    server.files["/a.txt.gz"] = gzip.compress(b"text")
    utils.download_and_extract_archive(
        f"{server.url}/a.txt.gz", tmp_path / "got", tmp_path / "got", remove_finished=True
    )
    assert [path.name for path in (tmp_path / "got").iterdir()] == ["a.txt"]


def test_checksums(tmp_path):
    path = tmp_path / "a"
    assert not utils.check_integrity(path)
    path.write_bytes(b"content")
    assert utils.check_integrity(path) and utils.check_integrity(str(path), md5(b"content"))
    assert not utils.check_integrity(path, md5(b"other")) and not utils.check_integrity(tmp_path)
    assert utils.calculate_md5(path, chunk_size=2) == md5(b"content")


def test_google_drive_needs_gdown(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gdown", None)
    with pytest.raises(RuntimeError, match="To download files from GDrive, 'gdown' is required"):
        utils.download_url("https://drive.google.com/file/d/abc/view", tmp_path, "a")


@pytest.mark.oracle
def test_signatures_are_those_of_torchvision():
    pytest.importorskip("torch")
    theirs = pytest.importorskip("torchvision").datasets

    def shape(function):
        def default(value):
            return value.__name__ if inspect.isfunction(value) else value

        parameters = inspect.signature(function).parameters.values()
        return [(each.name, default(each.default), each.kind) for each in parameters]

    for name, function in inspect.getmembers(theirs.utils, inspect.isfunction):
        if not name.startswith("_"):
            assert shape(getattr(utils, name)) == shape(function), name
    for name in datasets.__all__:
        if name != "Digits":
            assert shape(getattr(datasets, name)) == shape(getattr(theirs, name)), name
