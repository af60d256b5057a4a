"""Whether a request body is what a client library's own types say, to the last key.

The libraries themselves check lazily, if at all: a list is not looked into, and an unknown key passes.
"""

import types
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

import typing_extensions
from pydantic import BaseModel, ValidationError
from typing_extensions import ReadOnly, TypeAliasType, is_typeddict

_WRAPPERS = (Annotated, Required, NotRequired, ReadOnly)
_SCALARS: Mapping[Any, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    float: (float, int),
    bool: (bool,),
    None: (type(None),),
    type(None): (type(None),),
}


def faults(value: object, kind: Any, path: str = "$") -> list[str]:  # noqa: ANN401 - any annotation there is
    """What is wrong with a JSON value that should be of this kind; nothing, where it is."""
    kind = _bare(kind)
    origin = get_origin(kind)
    if kind in (Any, object):
        return []
    if is_typeddict(kind):
        return _dict_faults(value, kind, path)
    if origin in (Union, types.UnionType):
        return _union_faults(value, get_args(kind), path)
    if origin is Literal:
        return [] if value in get_args(kind) else [f"{path}: {value!r} is none of {get_args(kind)}"]
    if kind in _SCALARS:
        fits = isinstance(value, _SCALARS[kind]) and not (isinstance(value, bool) and kind in (int, float))
        return [] if fits else [f"{path}: {value!r} is no {kind}"]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _model_faults(value, kind, path)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_faults(value, get_args(kind)[1], path)
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return _list_faults(value, get_args(kind)[0], path)
    if isinstance(origin or kind, type):
        # A file, a date: nothing that JSON has.
        return [f"{path}: {value!r} is no {(origin or kind).__name__}"]
    raise TypeError(f"{path}: what is {kind!r}?")


def _bare(kind: Any) -> Any:  # noqa: ANN401 - the same
    while True:
        if isinstance(kind, TypeAliasType):
            kind = kind.__value__
        elif get_origin(kind) in _WRAPPERS:
            kind = get_args(kind)[0]
        else:
            return kind


@cache
def _fields(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:  # noqa: ANN401 - a TypedDict has no type of its own
    """The fields of a TypedDict, and those that have to be there."""
    hints = typing_extensions.get_type_hints(kind, include_extras=True)
    # The class was made while its annotations were still text, so what it says of the required ones may be wrong.
    required = {
        name
        for name, hint in hints.items()
        if _wrapped(hint, Required) or (name in kind.__required_keys__ and not _wrapped(hint, NotRequired))
    }
    return hints, frozenset(required)


def _wrapped(hint: Any, wrapper: Any) -> bool:  # noqa: ANN401 - the same
    while get_origin(hint) in _WRAPPERS:
        if get_origin(hint) is wrapper:
            return True
        hint = get_args(hint)[0]
    return False


def _dict_faults(value: object, kind: Any, path: str) -> list[str]:  # noqa: ANN401 - the same
    if not isinstance(value, dict):
        return [f"{path}: {value!r} is no {kind.__name__}"]
    hints, required = _fields(kind)
    found = [f"{path}: {kind.__name__} has no {name!r}" for name in value if name not in hints]
    found += [f"{path}: {kind.__name__} needs {name!r}" for name in sorted(required - value.keys())]
    for name, item in value.items():
        if name in hints:
            found += faults(item, hints[name], f"{path}.{name}")
    return found


def _union_faults(value: object, kinds: Sequence[Any], path: str) -> list[str]:
    """None where one of the kinds fits; else what is wrong with it as the one that fits best."""
    return min((faults(value, kind, path) for kind in kinds), key=len)


def _mapping_faults(value: object, kind: Any, path: str) -> list[str]:  # noqa: ANN401 - the same
    if not isinstance(value, dict):
        return [f"{path}: {value!r} is no mapping"]
    return [fault for name, item in value.items() for fault in faults(item, kind, f"{path}.{name}")]


def _list_faults(value: object, kind: Any, path: str) -> list[str]:  # noqa: ANN401 - the same
    if not isinstance(value, list):
        return [f"{path}: {value!r} is no list"]
    return [fault for place, item in enumerate(value) for fault in faults(item, kind, f"{path}[{place}]")]


def _model_faults(value: object, kind: type[BaseModel], path: str) -> list[str]:
    """A model that forbids what it does not know checks itself, and deeply. Any other is the type of a reply, which
    a library takes back as the object it was; as JSON it is another alternative of the same union.
    """
    if kind.model_config.get("extra") != "forbid":
        return [f"{path}: {value!r} is no {kind.__name__}"]
    try:
        kind.model_validate(value)
    except ValidationError as error:
        return [f"{path}.{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
    return []
