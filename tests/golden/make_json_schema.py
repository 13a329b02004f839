#!/usr/bin/env python3
"""Schemas with the texts that fulfil them, judged by the Python package jsonschema.

  python make_json_schema.py cases              writes json_schema/cases.json
  python make_json_schema.py walks WALKS.json   judges the texts that MS_WRITE_WALKS=WALKS.json golden_test wrote, and writes
                                                json_schema/walks.json if every one fulfils its schema

A case with a `language` has finitely many compact texts: here every candidate of a universe that the validator accepts, so the decoder's
own texts must be these and no others. `rejected`: candidates that are not in it, each with the number of bytes after which no text of the
language begins so. Other cases have `good` and `bad` texts.
"""
import itertools, json, os, re, sys
from importlib.metadata import version

from jsonschema import Draft202012Validator, ValidationError, validators

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "json_schema")
VERSIONS = {name: version(name) for name in ("jsonschema", "rfc3339-validator")} | {"python": sys.version.split()[0]}


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def words(alphabet, longest):
    return ["".join(w) for n in range(longest + 1) for w in itertools.product(alphabet, repeat=n)]


def objects(**choices):
    """Every object whose properties, in this order, have one of their values or are absent."""
    sides = [[None] + [(name, value) for value in values] for name, values in choices.items()]
    return [dict(pair for pair in pairs if pair) for pairs in itertools.product(*sides)]


def lists(values, longest):
    return [list(items) for n in range(longest + 1) for items in itertools.product(values, repeat=n)]


INTEGERS = list(range(-1300, 1301))
WORDS = words("abc", 5)
OTHERS = [None, True, False, -1, 0, 1, 2.5, "", "a", "b", [], [0], {}, {"a": 1}]
DATES = [f"{y}-{m:02}-{d:02}" for y in ("1900", "2000", "2023", "2024") for m in range(1, 14) for d in range(0, 33)]
TIMES = [f"{h:02}:{m:02}:{s:02}{z}" for h in (0, 9, 19, 23, 24) for m in (0, 59, 60) for s in (0, 30, 59) for z in ("Z", "+00:00", "-23:59", "+24:00", "")]
NODE = {"type": "object", "properties": {"op": {"const": "n"}, "v": {"enum": [1, 2]}}, "required": ["op", "v"]}

# name: (schema, universe)
FINITE = {
    "range": ({"type": "integer", "minimum": -12, "maximum": 107}, INTEGERS),
    "exclusive": ({"type": "integer", "exclusiveMinimum": -3, "exclusiveMaximum": 1001, "multipleOf": 7}, INTEGERS),
    "both_bounds": ({"type": "integer", "minimum": 3, "exclusiveMinimum": 3, "maximum": 20, "exclusiveMaximum": 30}, INTEGERS),
    "fractional_bounds": ({"type": "integer", "minimum": -2.5, "maximum": 9.99}, INTEGERS),
    "above_hundred": ({"type": "integer", "minimum": 95, "maximum": 1203, "multipleOf": 10}, INTEGERS),
    "multiple_of_fraction": ({"type": "integer", "multipleOf": 2.5, "minimum": -20, "maximum": 30}, INTEGERS),
    "number_multiple": ({"type": "number", "multipleOf": 12, "minimum": -100, "maximum": 100}, INTEGERS),
    "merged_ranges": ({"type": "integer", "allOf": [{"minimum": 5}, {"maximum": 60}, {"multipleOf": 4}, {"multipleOf": 6}]}, INTEGERS),
    "apart_ranges": ({"type": "integer", "oneOf": [{"maximum": -990, "minimum": -1000}, {"minimum": 8, "maximum": 12}, {"const": 100}]}, INTEGERS),
    "any_ranges": ({"anyOf": [{"type": "integer", "minimum": 1, "maximum": 5}, {"type": "integer", "minimum": 4, "maximum": 9}, {"type": "null"}]}, INTEGERS + OTHERS),
    "abc": ({"type": "string", "pattern": "^[abc]*$", "maxLength": 3}, WORDS),
    "found_inside": ({"allOf": [{"pattern": "^[abc]*$"}, {"pattern": "b"}, {"pattern": "cc?a"}], "maxLength": 5, "type": "string"}, WORDS),
    "anchors_in_choice": ({"allOf": [{"pattern": "^[abc]{0,4}$"}, {"pattern": "^a|b$"}], "type": "string"}, WORDS),
    "anchored_groups": ({"allOf": [{"pattern": "^[abc]{0,4}$"}, {"pattern": "(^|b)a(c|$)"}], "type": "string"}, WORDS),
    "counts": ({"type": "string", "pattern": "^(?:ab?){1,2}c{2,3}$"}, WORDS + [a + "c" * j for a in words("ab", 5) for j in range(5)]),
    "lazy": ({"type": "string", "pattern": "^a+?b??c*?$", "maxLength": 4}, WORDS),
    "nested_repeats": ({"type": "string", "pattern": "^(a|bc?)+$", "minLength": 2, "maxLength": 4}, WORDS),
    "negated_class": ({"type": "string", "allOf": [{"pattern": "^[a-f]{2}$"}, {"pattern": "^[^bd-f]"}, {"pattern": "[^a-c]$"}]}, words("abcdef", 3)),
    "quotes": ({"type": "string", "pattern": "^[\"\\\\\n/]{1,2}$"}, words("\"\\\n/a", 3)),
    "unicode": ({"type": "string", "pattern": "^[é-ë\u4e00\U0001f600-\U0001f602]{1,2}$"}, words("èéêëì\u4e00\u4e01\U0001f5ff\U0001f600\U0001f601\U0001f602\U0001f603", 2)),
    "escapes": ({"type": "string", "pattern": "^\\d\\.\\x41\\u0042[\\w-]?$"},
                [f"{d}{dot}{ab}{w}" for d in "0123456789a" for dot in (".", "x") for ab in ("AB", "Ab") for w in ["", "-", "+", "_"] + [chr(c) for c in range(48, 123) if chr(c).isalnum()]]),
    "dates": ({"type": "string", "format": "date", "pattern": "^(1900|2000|2023|2024)-0[24]-"}, DATES),
    "times": ({"type": "string", "format": "time", "allOf": [{"pattern": "^(0[09]|19|2[34]):(00|59|60):(00|30|59)(Z|[+]0|-23:59)"}, {"pattern": "(Z|0:00|-23:59)$"}]}, TIMES + [t.replace("Z", "+05:00") for t in TIMES]),
    "ipv4": ({"type": "string", "format": "ipv4", "pattern": "^(0|9|10|1[0-9]9|2..)\\.0\\.0\\.1$"}, [f"{i:{f}}.0.0.1" for i in range(0, 312) for f in ("d", "02d", "03d")]),
    "enum_filtered": ({"enum": ["a", "ab", 3, 30, None, [1], [1, 2], {"a": 1}, {"a": 1, "b": 2}], "minLength": 2, "maximum": 10, "minItems": 2, "required": ["b"]},
                      ["a", "ab", 3, 30, None, [1], [1, 2], {"a": 1}, {"a": 1, "b": 2}]),
    "const_in_all": ({"allOf": [{"enum": [1, 2, 3]}, {"enum": [2, 3, 4]}, {"type": "integer", "minimum": 3}]}, INTEGERS + OTHERS),
    "items_in_bounds": ({"type": "array", "items": {"type": "integer", "minimum": 8, "maximum": 11}, "minItems": 1, "maxItems": 2}, lists(range(7, 13), 3) + OTHERS),
    "items_merged": ({"type": "array", "allOf": [{"items": {"enum": [1, 2, 3]}}, {"items": {"enum": [2, 3, 4]}, "maxItems": 3}]}, lists(range(1, 5), 4)),
    "places": ({"type": "array", "prefixItems": [{"enum": [1, 2]}, {"type": "boolean"}], "items": {"type": "null"}, "maxItems": 4}, lists([None, True, False, 1, 2], 5)),
    "places_closed": ({"type": "array", "prefixItems": [{"enum": [1, 2]}, {"type": "boolean"}], "items": False, "minItems": 1}, lists([None, True, False, 1, 2], 4)),
    "unique": ({"type": "array", "items": {"enum": ["a", "b", 1]}, "uniqueItems": True, "minItems": 1}, lists(["a", "b", 1], 4)),
    "unique_kinds": ({"type": "array", "items": {"type": ["boolean", "null"]}, "uniqueItems": True, "maxItems": 2}, lists([True, False, None], 4)),
    "properties": ({"type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {"type": "boolean"}, "c": {"type": "null"}}, "required": ["b"], "additionalProperties": False},
                   objects(a=[1, 2, 3], b=[True, False, None], c=[None, 1], d=[1])),
    "properties_merged": ({"type": "object", "allOf": [{"properties": {"a": {"enum": [1, 2, 3]}, "b": {"type": "boolean"}}, "required": ["a"]},
                                                       {"properties": {"a": {"minimum": 2}, "c": {"type": "null"}}, "additionalProperties": False}]},
                          objects(a=[1, 2, 3, 4], b=[True], c=[None, 1])),
    "property_that_cannot_be": ({"type": "object", "properties": {"a": False, "b": {"enum": [1, 2]}}, "additionalProperties": False}, objects(a=[1], b=[1, 2, 3])),
    "further_never": ({"type": "object", "additionalProperties": False}, objects(a=[1], b=[2])),
    "told_apart": ({"type": "object", "oneOf": [{"properties": {"kind": {"const": "a"}, "x": {"enum": [1, 2]}}, "required": ["kind", "x"], "additionalProperties": False},
                                                {"properties": {"kind": {"const": "b"}, "y": {"type": "boolean"}}, "required": ["kind"], "additionalProperties": False}]},
                   objects(kind=["a", "b", "c"], x=[1, 2, 3], y=[True, False])),
    "types_apart": ({"oneOf": [{"type": "boolean"}, {"type": "string", "enum": ["x", "y"]}, {"type": "array", "maxItems": 0}, {"type": "array", "minItems": 1, "maxItems": 1, "items": {"type": "null"}}]},
                    OTHERS + ["x", "y", [None], [None, None]]),
    "reference_beside": ({"$ref": "#/$defs/small", "minimum": 3, "$defs": {"small": {"type": "integer", "minimum": 0, "maximum": 6}}}, INTEGERS),
    "any_beside": ({"type": ["integer", "string"], "anyOf": [{"enum": [1, 2, "a", None]}, {"const": "b"}], "maximum": 1}, INTEGERS + OTHERS),
    "nested": ({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "object", "properties": {"k": {"enum": ["p", "q"]}}, "required": ["k"], "additionalProperties": False}, "maxItems": 2}},
                "required": ["l"], "additionalProperties": False},
               [{"l": l} for l in lists([{"k": "p"}, {"k": "q"}, {"k": "r"}, {}], 3)] + [{}]),
}

# name: (schema, good texts, bad texts); the validator judges them, and the texts are in the decoder's form
OPEN = {
    "number_range": ({"type": "number", "minimum": -0.25, "exclusiveMaximum": 12.5}, ["0", "-0.25", "-0.249", "12.4999", "3.0", "10"], ["12.5", "12.50", "-0.2500001", "13", "-1", "\"1\""]),
    "number_open": ({"type": "number", "exclusiveMinimum": 0}, ["0.1", "0.00000000000001", "999999999999999", "1.5"], ["0", "0.0", "-1", "-0.5"]),
    "big_multiple": ({"type": "integer", "multipleOf": 1000000, "minimum": 1}, ["1000000", "123000000"], ["0", "-1000000", "1000001", "100000"]),
    "open_pattern": ({"type": "string", "pattern": "x?\\d"}, ["\"x1\"", "\"abc x9 é\"", "\"1x\""], ["\"x\"", "\"\"", "1", "\"X\""]),
    "long_pattern": ({"type": "string", "pattern": "^[a-z ]+$", "minLength": 5, "maxLength": 300}, ["\"hello world\"", "\"aaaaa\""], ["\"aaaa\"", "\"Hello\"", "\"\""]),
    "date_time": ({"type": "string", "format": "date-time"}, ["\"2024-02-29T12:00:00Z\"", "\"0001-01-01T00:00:00.123456+23:59\""], ["\"2023-02-29T12:00:00Z\"", "\"2024-01-01 00:00:00Z\"", "\"2024-01-01T00:00Z\""]),
    "uuid": ({"type": "string", "format": "uuid"}, ["\"00000000-0000-0000-0000-000000000000\"", "\"123E4567-e89b-12d3-a456-426614174000\""], ["\"00000000000000000000000000000000\"", "\"x\""]),
    "email": ({"type": "string", "format": "email"}, ["\"a@b.c\"", "\"first.last+tag@sub.example.org\""], ["\"a\"", "\"\""]),
    "further": ({"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "integer", "minimum": 0}},
                ["{}", "{\"a\":null}", "{\"a\":null,\"b\":1}", "{\"zz\":0,\"é\":12}"], ["{\"a\":1}", "{\"b\":-1}", "{\"b\":null}"]),
    "required_further": ({"type": "object", "required": ["k"], "additionalProperties": {"type": "boolean"}}, ["{\"k\":true}", "{\"k\":true,\"l\":false}"], ["{}", "{\"l\":true}", "{\"k\":1}"]),
    "any_object": ({"type": "object"}, ["{}", "{\"a\":[1,{\"b\":null}]}"], ["[]", "1"]),
    "tree": ({"$ref": "#/$defs/t", "$defs": {"t": {"oneOf": [NODE, {"type": "object", "properties": {"op": {"const": "m"}, "of": {"$ref": "#/$defs/t"}}, "required": ["op", "of"]}]}}},
             ["{\"op\":\"n\",\"v\":1}", "{\"op\":\"m\",\"of\":{\"op\":\"m\",\"of\":{\"op\":\"n\",\"v\":2}}}"], ["{\"op\":\"n\"}", "{\"op\":\"m\",\"of\":{\"op\":\"n\",\"v\":3}}", "{\"op\":\"x\",\"v\":1}"]),
    "person": ({"type": "object", "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 20, "pattern": "^[A-Z][a-z]+( [A-Z][a-z]+)?$"}, "born": {"type": "string", "format": "date"},
                                                 "age": {"type": "integer", "minimum": 0, "maximum": 130}, "tags": {"type": "array", "items": {"enum": ["new", "old", "vip"]}, "uniqueItems": True}},
                "required": ["name", "age"], "additionalProperties": False},
               ["{\"name\":\"Ada Byron\",\"age\":36}", "{\"name\":\"Ada\",\"born\":\"1815-12-10\",\"age\":36,\"tags\":[\"vip\",\"old\"]}"],
               ["{\"name\":\"ada\",\"age\":36}", "{\"name\":\"Ada\",\"age\":131}", "{\"name\":\"Ada\",\"born\":\"1815-12-32\",\"age\":1}", "{\"name\":\"Ada\",\"age\":1,\"tags\":[\"vip\",\"vip\"]}"]),
}


def ecma_pattern(validator, pattern, instance, schema):
    """As jsonschema, but $ is the end of the text, not also the place before a last line feed (Python's \\Z is ECMA-262's $)."""
    assert "\\$" not in pattern and not re.search(r"\[[^]]*\$", pattern), pattern
    if validator.is_type(instance, "string") and not re.search(pattern.replace("$", r"\Z"), instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


Judge = validators.extend(Draft202012Validator, {"pattern": ecma_pattern})


def validator(schema):
    Draft202012Validator.check_schema(schema)
    return Judge(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)


def finite_case(name, schema, universe):
    judge = validator(schema)
    candidates = list(dict.fromkeys(compact(v) for v in universe))
    language = [t for t in candidates if judge.is_valid(json.loads(t))]
    assert 0 < len(language) < 700, (name, len(language))
    encoded = [t.encode() for t in language]
    prefixes = {t[:n] for t in encoded for n in range(len(t) + 1)}
    rejected = []
    others = [t for t in candidates if t not in set(language)]
    for text in others[:: max(1, len(others) // 60)]:
        data = text.encode()
        dies = next((n for n in range(1, len(data) + 1) if data[:n] not in prefixes), 0)  # 0: a text goes on behind it
        rejected.append([text, dies])
    return dict(name=name, schema=schema, language=sorted(language), rejected=rejected)


def open_case(name, schema, good, bad):
    judge = validator(schema)
    for text in good:
        assert judge.is_valid(json.loads(text)), (name, text)
    for text in bad:
        assert not judge.is_valid(json.loads(text)), (name, text)
    return dict(name=name, schema=schema, good=good, bad=bad)


def write(name, rows):
    path = os.path.join(HERE, name)
    with open(path, "w") as f:
        f.write('{"versions":' + json.dumps(VERSIONS) + ',"cases":[\n')
        f.write(",\n".join(json.dumps(row, ensure_ascii=True, separators=(",", ":")) for row in rows))
        f.write("\n]}\n")
    print(path, os.path.getsize(path), "bytes,", len(rows), "cases")


def judge_walks(path):
    cases = {row["name"]: row["schema"] for row in json.load(open(os.path.join(HERE, "cases.json")))["cases"]}
    rows, count = json.load(open(path)), 0
    assert sorted(r["name"] for r in rows) == sorted(cases), "a case is missing"
    for row in rows:
        judge = validator(cases[row["name"]])
        for text in row["texts"]:
            errors = [e.message for e in judge.iter_errors(json.loads(text))]
            assert not errors, (row["name"], text, errors)
            count += 1
    print(count, "texts fulfil their schemas")
    write("walks.json", rows)


if __name__ == "__main__":
    os.makedirs(HERE, exist_ok=True)
    if sys.argv[1:2] == ["cases"]:
        write("cases.json", [finite_case(n, *c) for n, c in FINITE.items()] + [open_case(n, *c) for n, c in OPEN.items()])
    elif sys.argv[1:2] == ["walks"]:
        judge_walks(sys.argv[2])
    else:
        sys.exit(__doc__)
