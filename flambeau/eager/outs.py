"""What out= must be for ops that do not cast into it: exactly the dtypes of their results.

PyTorch words the refusal differently from op to op; each launcher module picks its own.
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau.eager.binding import bind, take_out
from flambeau.eager.fronts import quick_function
from flambeau.eager.launching import LAUNCHERS, call_row


def not_exact(wanted, got, name=""):
    return errors.not_exact_out(wanted, got)


def not_expected(wanted, got, name=""):
    return RuntimeError(f"expected scalar_type {wanted.scalar_name} but found {got.scalar_name}")


def checked(check):
    """A front (see binding.FRONTS) whose calls with out= go through check(function, ...) first."""

    def make(op, function):
        def general(*args, out=None, **kwargs):
            if out is None:
                return function(*args, **kwargs)
            bind(op, args, kwargs)
            take_out(op, out)
            return check(op, function, args, kwargs, out)

        return quick_function(
            op, LAUNCHERS[op.template], general, lambda bound: call_row(op, bound)
        )

    return make


def exact(refusal):
    """A front that refuses out= unless it is values of the input's dtype, then indices."""

    def check(op, function, args, kwargs, out):
        wanted = (args[0] if args else kwargs["input"]).dtype, d.int64
        given = (out,) if op.outputs == 1 else out
        for w, o, name in zip(wanted, given, ("values", "indices")):
            if o.dtype is not w:
                raise refusal(w, o.dtype, name)
        return function(*args, out=out, **kwargs)

    return checked(check)
