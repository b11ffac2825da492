"""JSON Schema for people: the shape of a value in a few lines, and a small example of one."""

import json
from typing import Any

__all__ = ["example", "outline"]

_DEEPEST = 6
_MOST_NAMES = 12
_SMALL = 4096  # longer limits are no news to anybody


def outline(schema: dict[str, Any], whole: dict[str, Any], depth: int = 0) -> str:
    """Return the shape of what a schema describes: names, kinds, and in brackets what is a list."""
    schema = _meant(schema, whole)
    pad = "  " * (depth + 1)
    if schema.get("properties") and depth < _DEEPEST:
        required = schema.get("required", [])
        lines = [
            f"{pad}{name}{'' if name in required else '?'}: {outline(one, whole, depth + 1)}"
            for name, one in schema["properties"].items()
        ]
        return "\n".join(["{", *lines, f"{pad[2:]}}}"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(outline(one, whole, depth) for one in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"[{outline(schema.get('items', {}), whole, depth)}]"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"{{name: {outline(schema['additionalProperties'], whole, depth)}}}"
    return _kind(schema)


def _kind(schema: dict[str, Any]) -> str:
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        names = [str(one) for one in schema["enum"]]
        return " | ".join(names if len(names) <= _MOST_NAMES else [*names[:_MOST_NAMES], "..."])
    kind = {"string": "text", "object": "{...}"}.get(str(schema.get("type", "")), str(schema.get("type", "anything")))
    if schema.get("format") == "binary" or schema.get("contentMediaType") == "application/octet-stream":
        return "file"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None and high <= _SMALL * _SMALL:
        return f"{kind} from {low} to {high}"
    return kind


def example(schema: dict[str, Any], whole: dict[str, Any]) -> str:
    """Return a small value that a schema describes, as JSON."""
    return json.dumps(_example(schema, whole))


def _example(schema: dict[str, Any], whole: dict[str, Any]) -> Any:  # noqa: ANN401 (any JSON)
    schema = _meant(schema, whole)
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    if "enum" in schema:
        return schema["enum"][0]
    if "properties" in schema:
        own = list(schema.get("required") or [])
        own += schema["anyOf"][-1].get("required", []) if "anyOf" in schema else []
        return {name: _example(schema["properties"][name], whole) for name in own}
    if "anyOf" in schema:
        return _example(schema["anyOf"][0], whole)
    if schema.get("type") == "array":
        return [_example(schema.get("items", {}), whole)]
    return {"integer": 1, "number": 1.0, "boolean": True, "object": {}}.get(schema.get("type", ""), "text")


def _meant(schema: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """Return what a reference stands for."""
    while "$ref" in schema:
        found: Any = whole
        for name in schema["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        schema = found
    return schema
