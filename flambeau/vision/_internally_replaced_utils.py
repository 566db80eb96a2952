"""A private path of torchvision from which published programs import one function."""

from flambeau.hub import load_state_dict_from_url as load_state_dict_from_url
