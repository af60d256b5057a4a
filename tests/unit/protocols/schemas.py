"""The generated schemas, ready to decide."""

import functools
import json
from typing import Final

from jsonschema import Draft202012Validator

from sideband.protocols.artifacts import artifacts

SCHEMAS: Final = {path: json.loads(text) for path, text in artifacts().items() if path.endswith(".json")}


@functools.cache
def validator(document: str, definition: str | None = None) -> Draft202012Validator:
    schema = SCHEMAS[f"{document}.schema.json"]
    if definition is None or definition == schema["title"]:
        return Draft202012Validator(schema)
    return Draft202012Validator({"$ref": f"#/$defs/{definition}", "$defs": schema["$defs"]})
