"""`torch._dynamo.config`: settings of reading programs."""

suppress_errors = False
cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = accumulated_recompile_limit = 256
sizes_limit = 512  # entries of one piece of a program, whatever made them
error_on_recompile = False
fail_on_recompile_limit_hit = False
verbose = False
disable = False
dynamic_shapes = True
assume_static_by_default = True
automatic_dynamic_shapes = True
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False
specialize_int = False
specialize_float = False
inline_inbuilt_nn_modules = True
guard_nn_modules = True
optimize_ddp = True
allow_rnn = False
force_parameter_static_shapes = True
skip_nnmodule_hook_guards = False
report_guard_failures = True
traceable_tensor_subclasses: set = set()
reorderable_logging_functions: set = set()
numpy_default_float, numpy_default_int = "float64", "int64"
trace_numpy = False
inline_depth = 80  # functions within functions that are read
reading_limit = 400_000  # steps of reading, after which a program is too long to be unrolled


def patch(changes=None, /, **more):
    """Other settings inside of a `with`, or of a function as a decorator."""
    return _Patch({**(changes or {}), **more})


class _Patch:
    def __init__(self, changes):
        self.changes, self.saved = changes, []

    def __enter__(self):
        self.saved.append({name: globals()[name] for name in self.changes})
        globals().update(self.changes)

    def __exit__(self, *error):
        globals().update(self.saved.pop())

    def __call__(self, function):
        import functools

        @functools.wraps(function)
        def patched(*args, **kwargs):
            with _Patch(self.changes):
                return function(*args, **kwargs)

        return patched
