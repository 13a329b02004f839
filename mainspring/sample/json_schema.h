// JSON schemas as automata over bytes, for constrained decoding.
//
// The one idea: a schema is compiled to a grammar of the JSON texts that fulfil it, in compact
// form: properties in the schema's order, at most one blank behind ',' and ':', none elsewhere,
// numbers of up to 15 digits before and behind the point. Every such text is valid; of the valid
// ones those with further properties, other orders, other blanks or longer numbers are left out.
// What cannot be compiled is refused by name, never ignored. Source of the keywords: JSON Schema
// 2020-12.
#pragma once

#include <memory>
#include <string>

#include "mainspring/base/status.h"
#include "mainspring/sample/byte_automaton.h"

namespace mainspring {

/// Keywords: type (a name or a list), properties, required, items, minItems, maxItems, minLength,
/// maxLength, enum, const, anyOf, $ref to "#", "#/$defs/NAME" or "#/definitions/NAME"; annotations
/// (title, description, default, examples, format, $schema, $id, $comment) and
/// additionalProperties: true or false change nothing. A schema without these is any JSON value.
/// Errors: invalid argument or unimplemented with the path within the schema.
Result<std::unique_ptr<ByteAutomaton>> compile_json_schema(const std::string& schema);

}  // namespace mainspring
