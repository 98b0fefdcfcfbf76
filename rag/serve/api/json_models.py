"""Models of the JSON that an interface sends, derived from the JSON forms of the values (`rag.schema`).

They describe the JSON (OpenAPI, the output schemas of MCP's tools) and validate it: an unknown or a missing
field is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import datetime
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, JsonValue, create_model

from rag.schema import OPAQUE, form_of

_TIMESTAMP = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class ResponseModel(BaseModel):
    """JSON that an interface sends."""

    model_config = ConfigDict(extra="forbid")


class JsonModels:
    """The models of one interface."""

    def __init__(self) -> None:
        self._known = dict[Any, Any]()

    def of(self, cls: Any, name: str = "", /, **more: Any) -> Any:
        """Create the model of a dataclass's JSON, with `more` fields by name and type.

        Models created later use it for fields of this dataclass.
        """
        form = form_of(cls)
        found = {field.name: self._json_type(field.name, field.type) for field in form.fields}
        found |= {name: get_type_hints(getattr(cls, name).fget)["return"] for name in form.computed}
        self._known[cls] = self.create(name or cls.__name__, cls.__doc__ or "", found | more)
        return self._known[cls]

    def create(self, name: str, doc: str, types: Mapping[str, Any], base: Any = ResponseModel) -> Any:
        """Create a model with these fields; a pair is a type and its default."""
        fields: dict[str, Any] = {
            name: kind if isinstance(kind, tuple) else (kind, ...) for name, kind in types.items()
        }
        return create_model(name, __base__=base, __doc__=doc, **fields)

    def _json_type(self, name: str, hint: Any) -> Any:
        """Return the type of a value in JSON."""
        origin, arguments = get_origin(hint), get_args(hint)
        if name in OPAQUE:
            return JsonValue
        if origin in (Union, UnionType):
            return Union[tuple(self._json_type(name, one) for one in arguments)]  # noqa: UP007
        if origin is tuple:
            return list[self._json_type(name, arguments[0])]  # type: ignore[misc]
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return dict[str, self._json_type(name, arguments[1])]  # type: ignore[misc]
        if is_dataclass(hint):
            return self._known[hint]
        return _TIMESTAMP if hint is datetime else hint
