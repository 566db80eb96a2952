"""`torch.cuda.amp.common`: whether mixed precision makes sense."""

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Is there no GPU?"""
    from flambeau import cuda

    return not cuda.is_available()
