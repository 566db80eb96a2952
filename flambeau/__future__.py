"""`torch.__future__`: how `Module.to` and its kin change parameters."""

_overwrite = False
_swap = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Should conversions make new parameters (True), or change those that are there?"""
    global _overwrite
    _overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    return _overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Should conversions exchange the contents of old and new parameters?"""
    global _swap
    _swap = value


def is_asked() -> bool:
    """Has a program asked for anything but the default?"""
    return _overwrite or _swap


def get_swap_module_params_on_conversion() -> bool:
    return _swap
