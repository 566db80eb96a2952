"""What transforms refuse, in PyTorch's words: recorded ones, and those of an installed PyTorch."""

import json
from pathlib import Path

import pytest

import flambeau
import flambeau.autograd.forward_ad
import flambeau.func
from tests.func.message_cases import CASES, first_sentence, refusal

RECORDED = json.loads((Path(__file__).parent.parent / "golden/func_messages.json").read_text())


@pytest.mark.parametrize("text", CASES)
def test_refusals(text):
    kind, message = RECORDED[text]
    found = refusal(flambeau, text)
    assert found is not None
    assert found[0] == kind
    assert first_sentence(found[1]) == message


@pytest.mark.oracle
def test_what_was_recorded():
    torch = pytest.importorskip("torch")
    for text in CASES:
        kind, message = refusal(torch, text)
        assert [kind, first_sentence(message)] == RECORDED[text], text
