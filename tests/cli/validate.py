#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""validate.py SCHEMA < object: checks one JSON object against a JSON schema.

Knows the keywords that schema/*.schema.json use, and refuses a schema with others, so that a check
is never skipped silently. NaN and Infinity, which Python would read, are errors.
"""

import json
import re
import sys

NOTES = {"$schema", "title", "description", "$defs"}
TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
}


class Invalid(Exception):
    pass


def check_type(schema, value, path, root):
    names = schema["type"]
    if not any(TYPES[name](value) for name in ([names] if isinstance(names, str) else names)):
        raise Invalid(f"{path}: {value!r} is no {names}")


def check_const(schema, value, path, root):
    if value != schema["const"]:
        raise Invalid(f"{path}: {value!r} is not {schema['const']!r}")


def check_enum(schema, value, path, root):
    if value not in schema["enum"]:
        raise Invalid(f"{path}: {value!r} is none of {schema['enum']}")


def check_required(schema, value, path, root):
    for key in schema["required"]:
        if isinstance(value, dict) and key not in value:
            raise Invalid(f"{path}: {key} is missing")


def check_properties(schema, value, path, root):
    if isinstance(value, dict):
        for key, part in schema["properties"].items():
            if key in value:
                check(part, value[key], f"{path}.{key}", root)


def check_additional(schema, value, path, root):
    if isinstance(value, dict):
        for key in value.keys() - schema.get("properties", {}).keys():
            check(schema["additionalProperties"], value[key], f"{path}.{key}", root)


def check_items(schema, value, path, root):
    if isinstance(value, list):
        for i, item in enumerate(value):
            check(schema["items"], item, f"{path}[{i}]", root)


def check_size(schema, value, path, root):
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            raise Invalid(f"{path}: {len(value)} items")


def check_pattern(schema, value, path, root):
    if isinstance(value, str) and not re.search(schema["pattern"], value):
        raise Invalid(f"{path}: {value!r} does not match {schema['pattern']}")


def check_minimum(schema, value, path, root):
    if TYPES["number"](value) and value < schema["minimum"]:
        raise Invalid(f"{path}: {value!r} is below {schema['minimum']}")


def check_one_of(schema, value, path, root):
    failures = []
    for part in schema["oneOf"]:
        try:
            check(part, value, path, root)
        except Invalid as failure:
            failures.append(str(failure))
    if len(failures) != len(schema["oneOf"]) - 1:
        raise Invalid(f"{path}: oneOf: {failures}")


def check_ref(schema, value, path, root):
    target = root
    for step in schema["$ref"].removeprefix("#/").split("/"):
        target = target[step]
    check(target, value, path, root)


CHECKS = {
    "type": check_type,
    "const": check_const,
    "enum": check_enum,
    "required": check_required,
    "properties": check_properties,
    "additionalProperties": check_additional,
    "items": check_items,
    "minItems": check_size,
    "maxItems": check_size,
    "pattern": check_pattern,
    "minimum": check_minimum,
    "oneOf": check_one_of,
    "$ref": check_ref,
}


def check(schema, value, path, root):
    for keyword in schema:
        if keyword in CHECKS:
            CHECKS[keyword](schema, value, path, root)
        elif keyword not in NOTES:
            raise SystemExit(f"validate.py: the schema's keyword {keyword} is not known here")


def refuse_constant(name):
    raise Invalid(f"{name} is no JSON")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    try:
        check(schema, json.loads(sys.stdin.read(), parse_constant=refuse_constant), "$", schema)
    except (Invalid, json.JSONDecodeError) as failure:
        raise SystemExit(f"validate.py: {failure}")


if __name__ == "__main__":
    main()
