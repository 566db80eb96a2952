"""`import functorch` in a process that a program under `python -m flambeau` has started."""

import importlib.util
import sys
from pathlib import Path

if importlib.util.find_spec("flambeau") is None:  # a source tree that is not installed
    sys.path.append(str(Path(__file__).parents[3]))

importlib.import_module("flambeau.runner.aliases").alias()
sys.modules[__name__] = importlib.import_module(__name__)
