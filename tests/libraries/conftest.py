"""Programs of libraries run when they are asked for (`-m libraries`), for they need gigabytes."""

import pytest


def pytest_collection_modifyitems(config, items):
    if "libraries" in config.getoption("markexpr"):
        return
    skip = pytest.mark.skip(reason="asked for by `-m libraries`")
    for item in items:
        if item.get_closest_marker("libraries"):
            item.add_marker(skip)
