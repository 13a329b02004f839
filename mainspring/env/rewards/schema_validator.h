// SchemaValidator: whether a JSON value fulfils a JSON schema.
//
// The one idea: a reward judges what a policy wrote by itself, in any order of properties and with
// any blanks, which the grammars of constrained decoding (sample/json_schema.h) leave out; so this
// walks values, not texts. A keyword that is not known is refused, never ignored. Source of the
// keywords: JSON Schema 2020-12.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "mainspring/base/status.h"
#include "mainspring/env/rewards/text_pattern.h"
#include "mainspring/io/json.h"

namespace mainspring {

class SchemaValidator {
 public:
  /// Keywords: type, enum, const, allOf, anyOf, oneOf, not, $ref within the schema, properties,
  /// required, additionalProperties, minProperties, maxProperties, items, prefixItems, minItems,
  /// maxItems, uniqueItems, minLength, maxLength, pattern, minimum, maximum, exclusiveMinimum,
  /// exclusiveMaximum, multipleOf; annotations (title, description, default, examples, $schema,
  /// $id, $comment, $defs, definitions) change nothing.
  /// Errors: invalid argument with the path within the schema.
  static Result<SchemaValidator> compile(Json schema);

  /// Cost: bounded; a value that takes more than a million comparisons does not fulfil.
  bool fulfils(const Json& value) const;
  /// The same of a text; false if it is no JSON.
  bool fulfils_text(std::string_view text) const;

 private:
  struct Walk;
  Status check(const Json& schema, const std::string& path, int depth);
  Status check_keyword(const std::string& keyword, const Json& value, const std::string& path,
                       int depth);
  Status check_children(const Json& children, const std::string& path, int depth);

  std::shared_ptr<const Json> schema_;
  std::map<std::string, std::shared_ptr<const TextPattern>> patterns_;  // by their text
};

}  // namespace mainspring
