"""What stands for objects of modules that a package has left out. It travels in packages."""


class MockedObject:
    """Any use but naming is an error.

    Args:
        name: of the object that it stands for.
    """

    def __init__(self, name, _suppress_err=False):
        self.__dict__["_name"] = name
        if not _suppress_err:
            _refuse(name, "__init__")

    def __repr__(self):
        return f"MockedObject({self._name!r})"


def _refuse(name, method):
    raise NotImplementedError(
        f"Object '{name}' was mocked out during packaging but it is being used in '{method}'. If "
        "this error is happening during 'load_pickle', please ensure that your pickled object "
        "doesn't contain any mocked objects. Try interning or externing the module of "
        f"'{name}' instead."
    )


def _refusal(method):
    def refuse(self, *args, **kwargs):
        _refuse(self._name, method)

    return refuse


for _method in (
    "__abs__ __add__ __and__ __bool__ __bytes__ __call__ __complex__ __contains__ __delattr__ "
    "__delitem__ __divmod__ __enter__ __eq__ __exit__ __float__ __floordiv__ __format__ __ge__ "
    "__getattr__ __getitem__ __gt__ __hash__ __index__ __int__ __invert__ __iter__ __le__ __len__ "
    "__lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __next__ __or__ __pos__ __pow__ "
    "__radd__ __rmul__ __rsub__ __rtruediv__ __reversed__ __round__ __rshift__ __setattr__ "
    "__setitem__ __str__ __sub__ __truediv__ __xor__"
).split():
    setattr(MockedObject, _method, _refusal(_method))
