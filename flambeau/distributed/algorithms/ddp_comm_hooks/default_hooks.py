"""Hooks that average buckets as they are, or in fewer bits."""

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import distributed
from flambeau.futures import Future

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]


def _averaged(group, tensor):
    """A future of the average of a tensor over a group."""
    tensor.div_(distributed.get_world_size(group))
    work = distributed.all_reduce(tensor, group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def allreduce_hook(process_group: Any, bucket: Any) -> Future:
    """The average, as without a hook."""
    return _averaged(process_group, bucket.buffer())


def _compressed(process_group, bucket, dtype):
    buffer = bucket.buffer()
    small = _averaged(process_group, buffer.to(dtype))
    return small.then(lambda future: buffer.copy_(future.value()))


def fp16_compress_hook(process_group: Any, bucket: Any) -> Future:
    """The average, sent in float16."""
    return _compressed(process_group, bucket, flambeau.float16)


def bf16_compress_hook(process_group: Any, bucket: Any) -> Future:
    """The average, sent in bfloat16."""
    return _compressed(process_group, bucket, flambeau.bfloat16)


def _wrapped(hook, dtype):
    def wrapper(state, bucket):
        whole = bucket.buffer()
        bucket.set_buffer(whole.to(dtype))

        def back(future):
            value = future.value()
            value = value[0] if isinstance(value, list) else value
            bucket.set_buffer(whole)
            return whole.copy_(value)

        return hook(state, bucket).then(back)

    return wrapper


def fp16_compress_wrapper(hook: Callable) -> Callable:
    """Another hook, given float16."""
    return _wrapped(hook, flambeau.float16)


def bf16_compress_wrapper(hook: Callable) -> Callable:
    """Another hook, given bfloat16."""
    return _wrapped(hook, flambeau.bfloat16)
