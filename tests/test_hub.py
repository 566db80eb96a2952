"""Downloads against a server on this machine that breaks off, lies, changes its mind and counts."""

import hashlib
import http.server
import io
import os
import sys
import threading
import zipfile
from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest

import flambeau
from flambeau import hub
from flambeau.hub import transfer as transfers
from flambeau.hub.transfer import DownloadError, Expected, WrongContent, digest, matches, transfer

CONTENT = bytes(range(256)) * 4000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
MD5 = hashlib.md5(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `server.files`; `server.manner` says how."""

    def do_GET(self):
        server = self.server
        server.seen.append((self.path, self.headers.get("Range")))
        if server.busy:
            self.send_error(server.busy.pop(0))
            return
        content = server.files.get(self.path.partition("?")[0])
        if content is None:
            self.send_error(404)
            return
        start, tag = 0, server.tag
        wanted = self.headers.get("Range")
        if wanted and server.ranges and self.headers.get("If-Range") == tag:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if server.ranges:
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("ETag", tag)
        if server.says_length:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = server.stops_at.pop(0) if server.stops_at else len(content)
        self.wfile.write(content[start:end])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.files, server.seen, server.tag = {"/a.bin": CONTENT}, [], '"1"'
    server.ranges, server.says_length, server.stops_at, server.busy = True, True, [], []
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def ranges(server):
    return [wanted for _, wanted in server.seen]


def only_file(folder):
    (path,) = folder.iterdir()
    return path


@pytest.mark.parametrize("says_length", [True, False])
@pytest.mark.parametrize("ranged", [True, False])
def test_a_file_arrives_whole(server, tmp_path, says_length, ranged):
    server.says_length, server.ranges = says_length, ranged
    transfer(
        server.url + "/a.bin", tmp_path / "a", Expected(SHA256, MD5, len(CONTENT)), progress=False
    )
    assert only_file(tmp_path).read_bytes() == CONTENT


def test_a_broken_connection_is_continued(server, tmp_path):
    server.stops_at = [1000, 5000]
    transfer(server.url + "/a.bin", tmp_path / "a", progress=False)
    assert only_file(tmp_path).read_bytes() == CONTENT
    assert ranges(server) == [None, "bytes=1000-", "bytes=5000-"]


def test_a_later_call_goes_on_where_an_earlier_one_stopped(server, tmp_path):
    server.stops_at = [70000] + [0] * transfers.ATTEMPTS
    with pytest.raises(DownloadError, match="70000 bytes"):
        transfer(server.url + "/a.bin", tmp_path / "a", progress=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.partial", "a.partial.source"]
    server.seen.clear()
    transfer(server.url + "/a.bin", tmp_path / "a", progress=False)
    assert ranges(server) == ["bytes=70000-"]
    assert only_file(tmp_path).read_bytes() == CONTENT


def test_a_file_that_changed_meanwhile_is_fetched_anew(server, tmp_path):
    server.stops_at = [70000] + [0] * transfers.ATTEMPTS
    with pytest.raises(DownloadError):
        transfer(server.url + "/a.bin", tmp_path / "a", progress=False)
    server.tag, server.files["/a.bin"] = '"2"', CONTENT[::-1]
    transfer(server.url + "/a.bin", tmp_path / "a", progress=False)
    assert only_file(tmp_path).read_bytes() == CONTENT[::-1]


def test_a_partial_file_longer_than_the_file_starts_anew(server, tmp_path):
    (tmp_path / "a.partial").write_bytes(b"x" * (len(CONTENT) + 9))
    url = server.url + "/a.bin"
    (tmp_path / "a.partial.source").write_text(f'{{"url": "{url}", "validator": "\\"1\\""}}')
    transfer(url, tmp_path / "a", progress=False)
    assert only_file(tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("note", [None, "", "[1]", "{}", '{"url": "x"}', "\x00{"])
def test_a_partial_file_of_unknown_origin_is_not_continued(server, tmp_path, note):
    (tmp_path / "a.partial").write_bytes(b"junk")
    if note is not None:
        (tmp_path / "a.partial.source").write_text(note)
    transfer(server.url + "/a.bin", tmp_path / "a", progress=False)
    assert only_file(tmp_path).read_bytes() == CONTENT


def test_without_ranges_a_broken_transfer_starts_anew(server, tmp_path):
    server.ranges, server.stops_at = False, [1000, 5000]
    transfer(server.url + "/a.bin", tmp_path / "a", progress=False)
    assert only_file(tmp_path).read_bytes() == CONTENT
    assert ranges(server) == [None] * 3


def test_a_busy_server_is_asked_again(server, tmp_path, monkeypatch):
    monkeypatch.setattr(transfers, "PAUSE", 0.01)
    server.busy = [503, 429]
    transfer(server.url + "/a.bin", tmp_path / "a", progress=False)
    assert only_file(tmp_path).read_bytes() == CONTENT
    server.busy = [500] * 9
    with pytest.raises(HTTPError, match="500"):
        transfer(server.url + "/a.bin", tmp_path / "b", progress=False)
    assert len(server.seen) == 3 + transfers.FROM_THE_START


def test_without_ranges_transfers_that_always_break_leave_nothing(server, tmp_path):
    server.ranges, server.stops_at = False, [1000] * transfers.FROM_THE_START
    with pytest.raises(DownloadError, match="ended before the file did, at 1000 of 1024000 bytes"):
        transfer(server.url + "/a.bin", tmp_path / "a", progress=False)
    assert not list(tmp_path.iterdir())


def test_a_server_that_never_gets_further_is_given_up(server, tmp_path):
    server.stops_at = [10] * 100
    with pytest.raises(DownloadError):
        transfer(server.url + "/a.bin", tmp_path / "a", progress=False)
    assert len(server.seen) == 1 + transfers.ATTEMPTS


@pytest.mark.parametrize(
    "expected",
    [Expected(sha256="00"), Expected(md5="0" * 32), Expected(size=5), Expected(size=1 << 40)],
)
@pytest.mark.parametrize("says_length", [True, False])
def test_wrong_content_is_refused_and_the_old_file_stays(server, tmp_path, expected, says_length):
    server.says_length = says_length
    (tmp_path / "a").write_text("before")
    with pytest.raises(WrongContent, match=r"invalid (hash value|size) \(expected"):
        transfer(server.url + "/a.bin", tmp_path / "a", expected, progress=False)
    assert only_file(tmp_path).read_text() == "before"


def test_mirrors_are_asked_in_turn(server, tmp_path):
    server.files["/wrong.bin"] = b"something else"
    addresses = [f"{server.url}/{name}.bin" for name in ("missing", "wrong", "a", "never")]
    transfer(addresses, tmp_path / "a", Expected(md5=MD5), progress=False)
    assert only_file(tmp_path).read_bytes() == CONTENT
    assert [path for path, _ in server.seen] == ["/missing.bin", "/wrong.bin", "/a.bin"]


def test_a_missing_file_is_an_http_error_with_advice(server, tmp_path):
    with pytest.raises(HTTPError, match=r"Not Found; could not download a from .* put it at") as e:
        transfer(server.url + "/no", tmp_path / "a", progress=False)
    assert e.value.code == 404
    assert not list(tmp_path.iterdir())


def test_no_network_names_file_address_and_place(tmp_path):
    url = "http://127.0.0.1:9/models/resnet18.pth"
    with pytest.raises(URLError) as e:
        transfer(url, tmp_path / "resnet18.pth", progress=False)
    said = str(e.value)
    assert said.startswith(f"could not download resnet18.pth from {url} (")
    assert said.endswith(f"put it at {tmp_path / 'resnet18.pth'}")


def test_several_at_once_do_not_mix(server, tmp_path):
    failures = []

    def fetch():
        try:
            transfer(server.url + "/a.bin", tmp_path / "a", Expected(MD5), progress=False)
        except WrongContent:  # every second one asks for something else
            pass
        except BaseException as error:
            failures.append(error)

    def fetch_right():
        try:
            transfer(server.url + "/a.bin", tmp_path / "a", Expected(md5=MD5), progress=False)
        except BaseException as error:
            failures.append(error)

    for _ in range(5):
        calls = [threading.Thread(target=f) for f in (fetch, fetch_right) * 4]
        for call in calls:
            call.start()
        for call in calls:
            call.join()
        assert not failures
        assert only_file(tmp_path).read_bytes() == CONTENT


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match=str(tmp_path)):
        transfer("http://127.0.0.1:9/a", tmp_path / "a", progress=False)


def test_digest_and_matches(tmp_path):
    path = tmp_path / "a"
    assert not matches(path, Expected())
    path.write_bytes(CONTENT)
    assert digest(path) == SHA256 and digest(path, "md5") == MD5
    assert matches(path, Expected(SHA256[:8].upper(), MD5, len(CONTENT)))
    assert not matches(path, Expected(size=3))


def test_the_plain_bar_says_percents(server, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    transfer(server.url + "/a.bin", tmp_path / "a")
    assert capsys.readouterr().err.endswith("\r100% (1.0 MB)\n")


# -- torch.hub -------------------------------------------------------------------------------------


@pytest.fixture
def hub_dir(tmp_path, monkeypatch):
    monkeypatch.setattr("flambeau.hub.repositories._chosen_folder", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "hub"


def saved(value):
    file = io.BytesIO()
    flambeau.save(value, file)
    return file.getvalue()


def test_folders(hub_dir, monkeypatch, tmp_path):
    assert hub.get_dir() == str(hub_dir)
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert hub.get_dir() == "/x/torch/hub"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert hub.get_dir() == os.path.expanduser("~/.cache/torch/hub")
    hub.set_dir(tmp_path)
    assert hub.get_dir() == str(tmp_path)
    monkeypatch.setenv("TORCH_HUB", "/y")
    with pytest.warns(UserWarning, match="TORCH_HUB is deprecated"):
        hub.get_dir()


def test_state_dicts_come_from_an_address_once(server, hub_dir, capsys):
    content = saved({"weight": flambeau.arange(3.0)})
    name = f"net-{hashlib.sha256(content).hexdigest()[:8]}.pth"
    server.files["/" + name] = content
    for _ in range(2):
        state = hub.load_state_dict_from_url(
            f"{server.url}/{name}?x=1", progress=False, check_hash=True
        )
        assert state["weight"].tolist() == [0, 1, 2]
    path = hub_dir / "checkpoints" / name
    assert path.read_bytes() == content
    assert len(server.seen) == 1
    assert capsys.readouterr().out == f'Downloading: "{server.url}/{name}?x=1" to {path}\n'


def test_a_wrong_hash_in_the_name_is_refused(server, hub_dir):
    server.files["/net-00000000.pth"] = saved({})
    with pytest.raises(RuntimeError, match='invalid hash value \\(expected "00000000", got "'):
        hub.load_state_dict_from_url(
            server.url + "/net-00000000.pth", progress=False, check_hash=True
        )
    assert not list((hub_dir / "checkpoints").iterdir())


def test_other_names_and_folders(server, tmp_path):
    server.files["/f"] = saved([1, 2])
    got = hub.load_state_dict_from_url(
        server.url + "/f", model_dir=str(tmp_path / "m"), file_name="g.pth", progress=False
    )
    assert got == [1, 2]
    assert (tmp_path / "m" / "g.pth").exists()


def test_a_zip_around_one_old_file_is_opened(server, tmp_path):
    inner = io.BytesIO()
    flambeau.save({"a": 1}, inner, _use_new_zipfile_serialization=False)
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w") as archive:
        archive.writestr("net.pth", inner.getvalue())
    server.files["/net.zip"] = outer.getvalue()
    with pytest.warns(FutureWarning, match="Falling back to the old format"):
        got = hub.load_state_dict_from_url(server.url + "/net.zip", str(tmp_path), progress=False)
    assert got == {"a": 1}


HUBCONF = '''
dependencies = ["json"]
from beside import double

def tiny(n, bias=0):
    """A tiny thing."""
    return double(n) + bias

def _hidden():
    pass

number = 3
'''


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "hubconf.py").write_text(HUBCONF)
    (folder / "beside.py").write_text("def double(n):\n    return 2 * n\n")
    yield folder
    sys.modules.pop("beside", None)


def test_local_repositories(repository):
    before = list(sys.path)
    assert hub.load(str(repository), "tiny", 4, bias=1, source="local") == 9
    assert sys.path == before


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        ("nothing", RuntimeError, "Cannot find callable nothing in hubconf"),
        ("number", RuntimeError, "Cannot find callable number in hubconf"),
        (3, ValueError, "Invalid input: model should be a string of function name"),
    ],
)
def test_what_a_repository_does_not_offer(repository, model, error, words):
    with pytest.raises(error, match=words):
        hub.load(str(repository), model, source="local")


def test_missing_dependencies_are_named(repository):
    with (repository / "hubconf.py").open("a") as file:
        file.write('dependencies = ["json", "not_there_1"]\n')
    with pytest.raises(RuntimeError, match="Missing dependencies: not_there_1"):
        hub.load(str(repository), "tiny", 1, source="local")


def test_unknown_sources():
    with pytest.raises(ValueError, match=r"Unknown source: .gitlab.\. Allowed"):
        hub.load("a/b", "c", source="gitlab")
    with pytest.raises(ValueError, match='source="local"'):
        hub.load("just-a-folder", "c")


def test_repositories_that_were_downloaded_before(repository, hub_dir, capsys):
    hub_dir.mkdir(parents=True)
    repository.rename(hub_dir / "pytorch_thing_v1")
    assert hub.load("pytorch/thing:v1", "tiny", 2) == 4
    assert "Using cache found in" in capsys.readouterr().err
    assert hub.list("pytorch/thing:v1", verbose=False) == ["double", "tiny"]
    assert hub.help("pytorch/thing:v1", "tiny") == "A tiny thing."


def test_a_repository_is_downloaded_and_unpacked(repository, hub_dir, server, monkeypatch):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        for name in ("hubconf.py", "beside.py"):
            zipped.write(repository / name, f"somebody-thing-1234/{name}")
    server.files["/zip"] = archive.getvalue()

    def fetch(address, path, **options):
        assert address == "https://github.com/somebody/thing/zipball/main"
        transfer(server.url + "/zip", path, **options)

    monkeypatch.setattr("flambeau.hub.repositories.transfer", fetch)
    answers = iter(["n", "maybe", "y"])
    monkeypatch.setattr("builtins.input", lambda question: next(answers))
    call = ("somebody/thing:main", "tiny", 5)
    with pytest.raises(Exception, match="Untrusted repository"):
        hub.load(*call, skip_validation=True)
    with pytest.raises(ValueError, match="Unrecognized response maybe"):
        hub.load(*call, skip_validation=True)
    assert hub.load(*call, skip_validation=True) == 10
    assert sorted(os.listdir(hub_dir)) == ["somebody_thing_main", "trusted_list"]
    assert (hub_dir / "trusted_list").read_text() == "somebody_thing\n"
    assert hub.load(*call, force_reload=True, skip_validation=True) == 10


@pytest.mark.parametrize("name", ["../out", "/out", "a/../../out", "C:/out", "..\\out"])
def test_archives_cannot_write_elsewhere(tmp_path, name):
    from flambeau.hub.repositories import extract

    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, "x")
    with zipfile.ZipFile(path) as archive, pytest.raises(ValueError, match="Archive entry"):
        extract(archive, str(tmp_path / "inside"))
    assert not Path(tmp_path / "out").exists()


def test_no_network_and_no_repository(hub_dir, monkeypatch):
    def unreachable(*_, **__):
        raise URLError("no route")

    monkeypatch.setattr("flambeau.hub.repositories.urlopen", unreachable)
    with pytest.raises(RuntimeError, match="It looks like there is no internet connection and the"):
        hub.load("pytorch/nothing", "tiny")
    with pytest.raises(RuntimeError, match=r"no internet connection: .*source=.local"):
        hub.load("pytorch/nothing:v1", "tiny")


@pytest.mark.parametrize(
    "entry, words",
    [
        ("../../etc/passwd", "contains directory traversal"),
        ("..\\..\\x", "contains directory traversal"),
        ("inside/../../x", "contains directory traversal"),
        ("/etc/passwd", "has absolute path"),
        ("C:\\x", "has absolute path"),
    ],
)
def test_archives_stay_in_their_folder(entry, words, tmp_path):
    with zipfile.ZipFile(tmp_path / "net.zip", "w") as archive:
        archive.writestr(entry, "bad")
    with zipfile.ZipFile(tmp_path / "net.zip") as archive, pytest.raises(ValueError, match=words):
        hub.repositories.extract(archive, str(tmp_path / "inside"))
    assert {path.name for path in tmp_path.rglob("*")} == {"net.zip"}
