"""`torch.functional`: an old place of functions that live at the top."""

import flambeau

__all__ = (
    "atleast_1d atleast_2d atleast_3d align_tensors broadcast_shapes broadcast_tensors "
    "cartesian_prod block_diag cdist chain_matmul einsum istft lu norm meshgrid pca_lowrank split "
    "stft svd_lowrank tensordot unique unique_consecutive unravel_index"
).split()


def __getattr__(name):
    if name in __all__:
        return getattr(flambeau, name)
    if name == "F":  # PyTorch's file has it, and programs found it there
        return flambeau.nn.functional
    raise AttributeError(f"module 'flambeau.functional' has no attribute '{name}'")
