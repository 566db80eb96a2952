"""Texts of programs: functions are read without their file, generated code comes from the disk."""

import ast
import linecache
import types

import pytest

import flambeau as torch
from flambeau._dynamo import programs
from flambeau.codegen import cache, texts

MODULES = [torch.nn.modules.conv, torch.nn.modules.batchnorm, torch.nn.functional, torch._tensor]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_a_function_alone_has_the_tree_that_it_has_in_its_file(module):
    lines = linecache.getlines(module.__file__)
    text = "".join(lines)
    whole = programs._functions_of(module.__file__, text)
    checked = 0
    for place, codes in programs._codes_of(module.__file__, text).items():
        nodes = whole.get(place, ())
        if len(nodes) == 1 and not place[1].startswith("<"):
            found = programs._own_tree(codes[0], lines)
            expected = ast.dump(nodes[0], include_attributes=True)
            assert ast.dump(found, include_attributes=True) == expected
            checked += 1
    assert checked > 3


ODD = '''
@decorated(
    1
)
def head(
    x,
) -> None:
    """A text
that goes back to the margin.
    """
# so does a remark
    return (
x
    )
def next(): return 1
'''


def test_heads_texts_and_remarks_do_not_end_a_function():
    (code,) = [
        c
        for c in compile(ODD, "odd", "exec").co_consts
        if isinstance(c, types.CodeType) and c.co_name == "head"
    ]
    found = programs._own_tree(code, ODD.splitlines(True))
    assert found.name == "head" and len(found.body) == 2
    assert isinstance(found.body[1], ast.Return)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


LINES = "".join(f"x{k} = {k}\n" for k in range(3000))


def ran(text, filename="somewhere"):
    space: dict = {}
    exec(texts.code_of(text, filename), space)
    return space


def test_long_texts_are_compiled_once(folder, monkeypatch):
    assert ran(LINES)["x2999"] == 2999
    (entry,) = [p for p in folder.rglob("*") if p.is_file()]
    monkeypatch.setattr(texts, "compile", None, raising=False)
    assert ran(LINES)["x2999"] == 2999
    with pytest.raises(TypeError):
        ran(LINES + "y = 1\n")  # another text
    with pytest.raises(TypeError):
        ran(LINES, "elsewhere")
    entry.write_bytes(entry.read_bytes()[:-1] + b"?")
    with pytest.raises(TypeError):
        ran(LINES)  # damaged


def test_short_texts_are_not_kept(folder):
    assert ran("x = 1\n")["x"] == 1
    assert not folder.exists()


def test_what_is_no_code_is_not_run(folder):
    key = cache.key_of(LINES, f"{texts._PYTHON} somewhere")
    for image in (b"nonsense", b"i\x01\x00\x00\x00", b""):
        cache.write(key, image)
        assert ran(LINES)["x1"] == 1
