"""`torch._dynamo.config`: settings of reading programs."""

import functools

suppress_errors = False
cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = accumulated_recompile_limit = 256
ints_limit = 64  # of which differ in ints that come from sizes
sizes_limit = 512  # entries of one piece of a program, whatever made them
error_on_recompile = False
fail_on_recompile_limit_hit = False
verbose = False
disable = False
stance = "default"  # torch.compiler.set_stance
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


def patch(changes=None, value=None, /, **more):
    """Other settings inside of a `with`, or of a function as a decorator."""
    return Patch(globals(), changes, value, more)


class Patch:
    """Names of a module with other values for a while."""

    def __init__(self, space, changes, value, more):
        if isinstance(changes, str):
            changes = {changes: value}
        changes = {**(changes or {}), **more}
        unknown = [name for name in changes if name not in space]
        if unknown:
            raise AttributeError(f"{space['__name__']}.{unknown[0]} does not exist")
        self.space, self.changes, self.saved = space, changes, []

    def __enter__(self):
        self.saved.append({name: self.space[name] for name in self.changes})
        self.space.update(self.changes)

    def __exit__(self, *error):
        self.space.update(self.saved.pop())

    def __call__(self, function):
        @functools.wraps(function)
        def patched(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return patched
