"""`torch._inductor.config`: settings of compiled graphs. Names that mean nothing here are kept."""

from flambeau._dynamo import config as _reading

emulate_eager = True  # the same bits as without compiling: always so here, whatever is said
max_autotune = False
max_autotune_gemm = False
max_autotune_gemm_search_space = "DEFAULT"
epilogue_fusion = True
fallback_random = True  # random numbers are eager's in any case
freezing = False
force_disable_caches = False
fx_graph_cache = True
graph_partition = True
coordinate_descent_tuning = False
cpp_wrapper = False
debug = False
keep_output_stride = True
permute_fusion = False
shape_padding = True
size_asserts = False
nan_asserts = False
conv_1x1_as_mm = False
allow_buffer_reuse = True
inplace_buffers = True
compile_threads = 1


def patch(changes=None, value=None, /, **more):
    """Other settings inside of a `with`, or of a function as a decorator."""
    return _reading.Patch(globals(), changes, value, more)
