"""Frozen dataclasses to JSON values and back, strictly: how traces and reports travel.

Reading checks every field against its annotation, so that a damaged or foreign file is refused in
one sentence that names the field, instead of failing later and elsewhere.
"""

from __future__ import annotations

import types
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
SIMPLE = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


class PlainDataError(ValueError):
    """A value that does not have the announced form."""


def to_plain(value: Any) -> dict[str, Any]:
    """A dataclass as nested dicts; tuples become lists when they are written as JSON."""
    return asdict(value)


def from_plain(kind: type[T], value: Any) -> T:
    """The dataclass `kind` from what `json.loads` gave. Raises `PlainDataError`."""
    result: T = _read(kind, value, kind.__name__)
    return result


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(hint: Any, value: Any, where: str) -> Any:
    origin = get_origin(hint)
    if is_dataclass(hint):
        return _read_dataclass(hint, value, where)
    if origin in (Union, types.UnionType):
        present = [option for option in get_args(hint) if option is not type(None)]
        return None if value is None else _read(present[0], value, where)
    if origin is tuple:
        return _read_tuple(get_args(hint), value, where)
    if origin is dict:
        _expect(isinstance(value, dict), where, "an object", value)
        kind = get_args(hint)[1]
        return {key: _read(kind, item, f"{where}.{key}") for key, item in value.items()}
    if origin is Literal:
        _expect(value in get_args(hint), where, "one of " + ", ".join(get_args(hint)), value)
        return value
    if hint is float and type(value) is int:
        return float(value)
    _expect(type(value) is hint, where, SIMPLE[hint], value)
    return value


def _read_dataclass(kind: Any, value: Any, where: str) -> Any:
    _expect(isinstance(value, dict), where, "an object", value)
    names = [item.name for item in fields(kind)]
    for name in (*names, *value):
        if name not in value:
            raise PlainDataError(f"{where} lacks the field '{name}'.")
        if name not in names:
            raise PlainDataError(f"{where} has the unknown field '{name}'.")
    hints = _hints(kind)
    return kind(**{name: _read(hints[name], value[name], f"{where}.{name}") for name in names})


def _read_tuple(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    _expect(isinstance(value, list | tuple), where, "a list", value)
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    _expect(len(kinds) == len(value), where, f"a list of {len(kinds)}", value)
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple(_read(kind, item, f"{where}[{index}]") for index, (kind, item) in pairs)


def _expect(holds: bool, where: str, wanted: str, value: Any) -> None:
    if not holds:
        raise PlainDataError(f"{where} must be {wanted}, got {str(value)[:40]!r}.")
