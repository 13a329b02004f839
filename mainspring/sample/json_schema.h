// JSON schemas as automata over bytes, for constrained decoding.
//
// The one idea: a schema is compiled to a grammar of the JSON texts that fulfil it, in compact
// form: properties in the schema's order, at most one blank behind ',' and ':', none elsewhere,
// numbers of up to 15 digits before and behind the point (in all, and without exponent, where they
// are bounded). Every such text is valid; of the valid ones those with further properties, other
// orders, other blanks or longer numbers are left out. What cannot be compiled is refused by name,
// never ignored. Source of the keywords: JSON Schema 2020-12.
#pragma once

#include <memory>
#include <string>

#include "mainspring/base/status.h"
#include "mainspring/sample/byte_automaton.h"

namespace mainspring {

/// Keywords: type (a name or a list), enum, const, $ref to "#", "#/$defs/NAME" or
/// "#/definitions/NAME", allOf, anyOf, oneOf of branches that exclude each other; properties,
/// required, additionalProperties; items, prefixItems, minItems, maxItems, uniqueItems of few
/// listed values; minLength, maxLength, pattern (char_pattern.h), format (string_formats.h);
/// minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf (number_range.h). All that
/// stand beside each other hold. Annotations (title, description, default, examples, $schema, $id,
/// $comment) change nothing, nor does additionalProperties: true beside properties. A schema
/// without keywords is any JSON value; one that speaks of some types only, without naming them,
/// means those. Texts nest up to 48 levels of items and properties: where that is reached only what
/// can end within it is let through. Errors: invalid argument with the path within the schema, also
/// for a schema that no finite value fulfils.
Result<std::unique_ptr<ByteAutomaton>> compile_json_schema(const std::string& schema);

}  // namespace mainspring
