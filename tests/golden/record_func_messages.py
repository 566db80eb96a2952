"""Records what PyTorch's transforms refuse. Run it from the repository root."""

import json
from pathlib import Path

import torch

from tests.func.message_cases import CASES, first_sentence, refusal

found = {}
for text in CASES:
    kind, message = refusal(torch, text)
    found[text] = [kind, first_sentence(message)]
target = Path(__file__).parent / "func_messages.json"
target.write_text(json.dumps(found, indent=1) + "\n")
