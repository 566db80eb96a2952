"""What matrix products refuse, in PyTorch's words and order; operands are layouts or tensors."""

import math

from flambeau import errors


def is_refused(dtype):
    return dtype.category == 0 or dtype.name in ("uint16", "uint32", "uint64", "complex32")


def refuse(name, *operands):
    """There is no kernel for some dtypes; nobody asks for it where there is nothing to do."""
    dtype = operands[0].dtype
    if is_refused(dtype) and all(math.prod(t.shape) for t in operands):
        raise errors.not_implemented(name, dtype)


def check_inner(m, k, wanted, n):
    """m x k times wanted x n."""
    if k != wanted:
        hint = f"; mat2.T, of shape ({n}, {wanted}), would fit" if k == n else ""
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {wanted}x{n}){hint}"
        )


def check_same_dtype(a, b):
    if a is not b:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {a.cpp_name} != {b.cpp_name}"
        )


def check_reach(t, dim):
    """PyTorch asks for a size before it counts dimensions."""
    if dim >= t.ndim:
        raise errors.dimension_out_of_range(dim, t.ndim) if t.ndim else errors.no_dimensions(dim)


def check_batches(a, b):
    for t, name in ((a, "batch1"), (b, "batch2")):
        if t.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")


def check_batch_sizes(a, b):
    if b.shape[0] != a.shape[0] or b.shape[1] != a.shape[2]:
        raise wrong_batch((a.shape[0], a.shape[2]), b.shape[:2])


def wrong_batch(wanted, got):
    return RuntimeError(
        "Expected size for first two dimensions of batch2 tensor to be: "
        f"{list(wanted)} but got: {list(got)}."
    )


def check_scalar_types(a, b):
    """The complaint of kernels that look at their operands one by one."""
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"expected scalar type {a.dtype.scalar_name} but found {b.dtype.scalar_name}"
        )


def check_expands(input, shape):
    """Can input be expanded to the shape of the product?"""
    given, missing = list(input.shape), len(shape) - len(input.shape)
    if missing < 0:
        raise RuntimeError(
            f"expand(torch.{input.dtype.scalar_name}Tensor{{{given}}}, size={list(shape)}): the "
            f"number of sizes provided ({len(shape)}) must be greater or equal to the number of "
            f"dimensions in the tensor ({len(given)})"
        )
    for k in range(len(given) - 1, -1, -1):
        wanted = shape[missing + k]
        if given[k] not in (1, wanted):
            raise RuntimeError(
                f"The expanded size of the tensor ({wanted}) must match the existing size "
                f"({given[k]}) at non-singleton dimension {missing + k}.  Target sizes: "
                f"{list(shape)}.  Tensor sizes: {given}"
            )


def check_vectors(input_shape, mat, vec):
    """mat @ vec, with the shape of what is added to it."""
    ndim = max(1, len(input_shape))
    if mat.ndim != 2 or vec.ndim != 1 or len(input_shape) > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {ndim}, {mat.ndim}, {vec.ndim}")
    added = input_shape[0] if input_shape else 1
    if mat.shape[1] != vec.shape[0] or added not in (1, mat.shape[0]):
        if not input_shape:
            raise errors.no_dimensions(0)
        raise RuntimeError(
            f"size mismatch, got input ({added}), mat ({mat.shape[0]}x{mat.shape[1]}), vec "
            f"({vec.shape[0]})"
        )


def check_vector_dtypes(input, mat, vec):
    if not input.dtype is mat.dtype is vec.dtype:
        names = [t.dtype.scalar_name for t in (input, mat, vec)]
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {names[0]}, {names[1]}, and "
            f"{names[2]}"
        )


def check_addmm(input, mat1, mat2):
    for t, name in ((mat1, "mat1"), (mat2, "mat2")):
        if t.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {t.ndim}-D tensor")
    check_inner(*mat1.shape, *mat2.shape)
    check_expands(input, (mat1.shape[0], mat2.shape[1]))
    check_added(input, mat1, mat2)


def check_added(input, mat1, mat2):
    for t, name in ((input, "self"), (mat1, "mat1")):
        if t.dtype is not mat2.dtype:
            raise RuntimeError(
                f"{name} and mat2 must have the same dtype, but got "
                f"{t.dtype.scalar_name} and {mat2.dtype.scalar_name}"
            )
    refuse("addmm_impl_cpu_", mat2, mat1)


def check_baddbmm(input, batch1, batch2):
    for t, dim in ((batch1, 0), (batch1, 1), (batch2, 2)):
        check_reach(t, dim)
    check_batches(batch1, batch2)
    check_expands(input, (batch1.shape[0], batch1.shape[1], batch2.shape[2]))
    check_batch_sizes(batch1, batch2)
    if input.dtype is not batch1.dtype:
        names = [t.dtype.cpp_name for t in (input, batch1, batch2)]
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {names[0]}, batch1: {names[1]}, batch2: "
            f"{names[2]}"
        )
    check_scalar_types(batch1, batch2)
    refuse("baddbmm", batch1, batch2)


def check_addmv(input, mat, vec):
    check_vectors(input.shape, mat, vec)
    check_vector_dtypes(input, mat, vec)
    refuse("addmv_impl_cpu", mat, vec)


def check_addbmm(input, batch1, batch2):
    for t, dim in ((batch1, 1), (batch2, 2)):
        check_reach(t, dim)
    check_batches(batch1, batch2)
    if batch1.shape[0] != batch2.shape[0]:
        raise RuntimeError(
            f"batch1 and batch2 must have same number of batches, got {batch1.shape[0]} and "
            f"{batch2.shape[0]}"
        )
    check_expands(input, (batch1.shape[1], batch2.shape[2]))
    if batch1.shape[2] != batch2.shape[1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for bmm ({batch1.shape[1]}x{batch1.shape[2]} and "
            f"{batch2.shape[1]}x{batch2.shape[2]})"
        )
    check_added(input, batch1, batch2)
