"""Lists and dictionaries that nobody changes: the arguments of nodes.

A node counts its users by its arguments, so these must not change behind its back.
"""

from typing import Any, NoReturn

from flambeau.utils import _pytree

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        f"{type(self).__name__!r} object does not support mutation. If you are attempting to "
        "modify the kwargs or args of a torch.fx.Node object,\n"
        "instead create a new copy of it and assign the copy to the node:\n\n"
        "    new_args = ...  # copy and mutate args\n"
        "    node.args = new_args"
    )


class immutable_list(list):
    """A list that is never changed."""

    append = extend = insert = pop = remove = clear = reverse = sort = _refuse
    __delitem__ = __setitem__ = __iadd__ = __imul__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple:
        return immutable_list, (tuple(self),)


class immutable_dict(dict):
    """A dictionary that is never changed."""

    clear = pop = popitem = setdefault = update = _refuse
    __delitem__ = __setitem__ = __ior__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple:
        return immutable_dict, (tuple(self.items()),)


_pytree.register_pytree_node(
    immutable_list,
    lambda items: (list(items), None),
    lambda items, _: immutable_list(items),
    serialized_type_name="torch.fx.immutable_collections.immutable_list",
    flatten_with_keys_fn=_pytree._list_flatten_with_keys,
)
_pytree.register_pytree_node(
    immutable_dict,
    lambda items: (list(items.values()), list(items)),
    lambda values, keys: immutable_dict(zip(keys, values)),
    serialized_type_name="torch.fx.immutable_collections.immutable_dict",
    flatten_with_keys_fn=_pytree._dict_flatten_with_keys,
)
