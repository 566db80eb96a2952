"""Parameter and Buffer: tensors that a module registers when they are assigned to it.

The uninitialised kinds have a dtype and a device but no shape yet; lazy modules give them one when
they see their first input.
"""

from flambeau import _device
from flambeau._dtype import default_dtype
from flambeau._layout import Size, dense_layout
from flambeau._tensor import Tensor, empty_tensor, make_tensor
from flambeau._tensor.gradients import check_may_require
from flambeau.interposing.overriding import SPEAKS, disabled, has_dispatch, roles
from flambeau.interposing.overriding import disabled as _disabled_torch_function_impl  # noqa: F401


class _ParameterMeta(type(Tensor)):  # type: ignore[misc]
    """Lets a tensor of a user's own class count as a parameter: it says `_is_param`."""

    def __instancecheck__(cls, instance):
        if type.__instancecheck__(cls, instance):
            return True
        mark = cls.__dict__.get("_mark")
        return mark is not None and isinstance(instance, Tensor) and getattr(instance, mark, False)


def _alias(cls, data, requires_grad):
    check_may_require(data, requires_grad)
    out = make_tensor(data._layout, data._storage, data._offset, cls)
    out._requires_grad = requires_grad
    return out


def _marked(data, requires_grad):
    """A tensor of a class that answers for itself stays of its class."""
    out = data.detach().requires_grad_(requires_grad)
    if type(out) is not type(data):
        raise RuntimeError(
            f"Creating a Parameter from an instance of type {type(data).__name__} requires that "
            "detach() returns an instance of the same type, but return type "
            f"{type(out).__name__} was found instead. To use the type as a Parameter, please "
            "correct the detach() semantics defined by its __torch_dispatch__() implementation."
        )
    out._is_param = True
    return out


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that is learned: modules collect those that are assigned to them."""

    __slots__ = ()
    _mark = "_is_param"
    __torch_function__ = disabled

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = empty_tensor(Size((0,)), default_dtype(), _device.default_device())
        if not isinstance(data, Tensor):
            raise TypeError("Parameter data must be a Tensor, but got " + type(data).__name__)
        if requires_grad and not (data.is_floating_point() or data.is_complex()):
            raise RuntimeError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        if type(data) is not Tensor and (roles[type(data)] == SPEAKS or has_dispatch(type(data))):
            return _marked(data, requires_grad)
        return _alias(cls, data.detach(), requires_grad)

    def __repr__(self):
        return "Parameter containing:\n" + Tensor.__repr__(self)


class Buffer(Tensor, metaclass=_ParameterMeta):
    """A tensor that belongs to a module but is not learned.

    Only a mark says so: it stays of the class of what it is made from.
    """

    __slots__ = ()
    _mark = "_is_buffer"
    __torch_function__ = disabled
    persistent: bool

    def __new__(cls, data=None, *, persistent=True):
        if data is None:
            data = empty_tensor(Size((0,)), default_dtype(), _device.default_device())
        out = data.detach().requires_grad_(data.requires_grad)
        out.persistent, out._is_buffer = persistent, True
        return out


_WAITING = (
    "Attempted to use an uninitialized parameter in {}. This error happens when you are using a "
    "`LazyModule` or explicitly manipulating `torch.nn.parameter.{}` objects. When using "
    "LazyModules Call `forward` with a dummy batch to initialize the parameters before calling "
    "torch functions"
)
# what may be asked of a tensor without a shape
_ALLOWED = frozenset(
    "_layout _storage _offset _requires_grad _grad _grad_fn _output_nr _view _extra __dict__ "
    "__class__ __deepcopy__ __reduce_ex__ __repr__ cls_to_become materialize is_leaf requires_grad "
    "requires_grad_ dtype device is_cuda is_meta grad grad_fn data shape _is_param _is_buffer "
    "__hash__ __setstate__ is_floating_point is_complex share_memory_ retains_grad persistent "
    "_become detach to cpu cuda half float double bfloat16 type names is_shared".split()
)


class UninitializedTensorMixin:
    """A tensor that waits for its shape."""

    __slots__ = ()

    def materialize(self, shape, device=None, dtype=None):
        """Give it a shape, and memory: it becomes an ordinary parameter or buffer."""
        layout = self._layout
        device = layout.device if device is None else _device.resolve(device)
        shape = Size((shape,) if isinstance(shape, int) else shape)
        made = empty_tensor(shape, dtype or layout.dtype, device)
        self._layout, self._storage, self._offset = made._layout, made._storage, made._offset
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def share_memory_(self):
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self):
        return f"<{type(self).__name__}>"

    def __getattribute__(self, name):
        if name not in _ALLOWED:
            raise ValueError(_WAITING.format(f"<method '{name}' of tensors>", type(self).__name__))
        return super().__getattribute__(name)

    def _become(self, layout):
        """The same without a shape, of another dtype or device."""
        empty = dense_layout(Size((0,)), layout.dtype, layout.device)
        out = make_tensor(empty, self._storage, 0, self.__class__)
        out._requires_grad = self._requires_grad
        return out

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = self._become(self._layout)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        name = self._layout.dtype.name
        return _rebuild, (self.__class__, name, self._layout.device.type, self._requires_grad)


def _rebuild(cls, dtype, device, requires_grad):
    from flambeau._dtype import BY_NAME

    return cls(requires_grad, device=device, dtype=BY_NAME[dtype])


def _nothing(cls, requires_grad, device, dtype):
    device = _device.default_device() if device is None else _device.resolve(device)
    made = empty_tensor(Size((0,)), dtype or default_dtype(), device)
    return _alias(cls, made, requires_grad)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet."""

    __slots__ = ()
    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        return _nothing(cls, requires_grad, device, dtype)

    def __init__(self, requires_grad=True, device=None, dtype=None):
        pass


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer whose shape is not known yet."""

    __slots__ = ()
    cls_to_become = Tensor

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        out = _nothing(cls, requires_grad, device, dtype)
        out.persistent = persistent
        return out

    def __init__(self, requires_grad=False, device=None, dtype=None, persistent=True):
        pass


def is_lazy(param):
    """Does it still wait for a shape?"""
    return isinstance(param, UninitializedTensorMixin)


def forget_gradients(params, set_to_none):
    """Take the gradients of parameters away, or fill them with zeros, cut off from their graph."""
    for param in params:
        grad = None if set_to_none else param.grad
        if grad is not None:
            grad = grad.detach_() if grad.grad_fn is not None else grad.requires_grad_(False)
            grad.zero_()
        elif param.grad is not None:
            param.grad = None
