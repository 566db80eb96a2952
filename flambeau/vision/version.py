"""Versions, where programs look for them: torchvision's, and that no GPU build is inside."""

from flambeau.vision import __version__ as __version__

git_version = "flambeau"
cuda = None
