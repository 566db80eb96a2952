"""Every stage of a kernel can be printed."""

import pytest

import flambeau as torch
from flambeau.codegen import dump
from flambeau.codegen.llvm_cpu import PASSES


@pytest.fixture(scope="module")
def kernel():
    runtime = torch.device("cpu").runtime
    saved, runtime.kernels = runtime.kernels, {}
    try:
        with dump.record() as kernels:
            torch.arange(11.0).expand(7, 11).t().sigmoid()
    finally:
        runtime.kernels = saved
    return next(k for k in kernels if k.name == "sigmoid")


def test_nothing_is_recorded_by_default(kernel):
    assert dump.seen is None


def test_recordings_nest():
    with dump.record() as outer:
        with dump.record() as inner:
            assert dump.seen is inner
        assert dump.seen is outer


def test_the_scalar_expression_says_what_is_computed(kernel):
    text = dump.describe(kernel, "scalar")
    assert "arg0" in text and text.endswith(": f32")


def test_the_nest_says_how_operands_are_walked(kernel):
    text = dump.describe(kernel, "nest")
    assert "read arg0: f32" in text and "write out0: f32, side by side" in text


def test_the_ir_is_that_of_the_body(kernel):
    text = dump.describe(kernel, "llvm")
    assert text.startswith("define void @body(") and "@entry(" not in text
    assert "0x" not in text  # numbers are in decimals


def test_every_pass_is_shown(kernel):
    text = dump.describe(kernel, "passes")
    for title, _ in PASSES:
        assert f"; after: {title}" in text


def test_the_assembly_is_code_only(kernel):
    text = dump.describe(kernel, "assembly")
    assert text.startswith("body:") and "ret" in text and ".cfi" not in text


def test_a_kernel_without_a_nest_has_no_scalar_stage():
    bare = dump.Kernel("f", "define void @body(ptr %b, i64 %c) {\n  ret void\n}\n")
    assert dump.describe(bare, "scalar") is None and dump.describe(bare, "nest") is None
    assert "@body" in dump.describe(bare, "llvm")


def test_vectors_of_equal_numbers_are_written_once():
    assert (
        dump.readable("<float 0x3FF0000000000000, float 0x3FF0000000000000>") == "splat (float 1.0)"
    )
    assert dump.readable("<i32 0, i32 1>") == "<i32 0, i32 1>"
