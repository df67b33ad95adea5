"""The report reference: every field of `report.json`, from docs/report.schema.json."""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]


def write_reference(schema: Schema) -> str:
    """The page in Markdown: the four documents first, then their parts by name."""
    definitions = schema["$defs"]
    documents = [_name(option["$ref"]) for option in schema["anyOf"]]
    rest = sorted(name for name in definitions if name not in documents)
    lines = [
        "# Report reference",
        "",
        f"{schema['description']} Made from [report.schema.json](report.schema.json), a JSON Schema.",
        "",
        "| document | it is |",
        "|---|---|",
        *(f"| [{name}](#{name.lower()}) | {_cell(definitions[name].get('description', ''))} |" for name in documents),
        "",
    ]
    for name in [*documents, *rest]:
        lines += _definition(name, definitions[name])
    return "\n".join(lines) + "\n"


def _definition(name: str, definition: Schema) -> list[str]:
    required = definition.get("required", [])
    fields = {**definition.get("properties", {}), **definition.get("patternProperties", {})}
    rows = [
        f"| `{field}` | {_type(value)} | {'yes' if field in required else ''} | {_cell(value.get('description', ''))} |"
        for field, value in fields.items()
    ]
    head = ["| field | type | always | meaning |", "|---|---|---|---|"] if rows else []
    return [f"## {name}", "", _cell(definition.get("description", "")), "", *head, *rows, ""]


def _type(value: Schema) -> str:
    """A schema's type in words, with links to the parts that it names."""
    if "$ref" in value:
        name = _name(value["$ref"])
        return f"[{name}](#{name.lower()})"
    if "anyOf" in value:
        return " or ".join(_type(option) for option in value["anyOf"])
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return ", ".join(f"`{option}`" for option in value["enum"])
    kind = value.get("type", "any")
    if kind == "array":
        return f"list of {_type(value['items'])}" if value.get("items") else "list"
    if kind == "object" and isinstance(value.get("additionalProperties"), Mapping):
        return f"object of {_type(value['additionalProperties'])}"
    return "None" if kind == "null" else str(kind)


def _name(reference: str) -> str:
    return reference.rpartition("/")[2]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
