#include "mainspring/sample/byte_forms.h"

#include <array>
#include <cstdio>
#include <string_view>

namespace mainspring {
namespace {

constexpr int32_t kFirstPlain = 0x20;  // below are control characters

ByteSet bytes(int32_t first, int32_t last) {
  ByteSet set;
  for (int32_t b = first; b <= last; ++b) set.set(static_cast<size_t>(b));
  return set;
}

ByteForm text_form(std::string_view text) {
  ByteForm form;
  for (const char c : text) form.push_back(ByteSet().set(static_cast<unsigned char>(c)));
  return form;
}

/// Characters first to last of one length in UTF-8, `tail` bytes behind the first: cut where the
/// bytes behind the one that differs do not run through all their values.
void add_utf8(int32_t first, int32_t last, int tail, int32_t lead, std::vector<ByteForm>& out) {
  for (int level = tail; level > 0; --level) {
    const int32_t low = (1 << (6 * level)) - 1;  // of the last `level` bytes
    if ((first & ~low) == (last & ~low)) continue;
    if ((first & low) != 0) {
      add_utf8(first, first | low, tail, lead, out);
      add_utf8((first | low) + 1, last, tail, lead, out);
      return;
    }
    if ((last & low) != low) {
      add_utf8(first, (last & ~low) - 1, tail, lead, out);
      add_utf8(last & ~low, last, tail, lead, out);
      return;
    }
  }
  ByteForm form = {bytes(lead | first >> (6 * tail), lead | last >> (6 * tail))};
  for (int level = tail - 1; level >= 0; --level)
    form.push_back(
        bytes(0x80 | (first >> (6 * level) & 0x3F), 0x80 | (last >> (6 * level) & 0x3F)));
  out.push_back(std::move(form));
}

}  // namespace

std::vector<ByteForm> forms_of(const CharSet& set) {
  struct Length {
    int32_t first, last;
    int tail;
    int32_t lead;
  };
  constexpr std::array<Length, 3> kLengths = {
      {{0x80, 0x7FF, 1, 0xC0}, {0x800, 0xFFFF, 2, 0xE0}, {0x10000, kLastChar, 3, 0xF0}}};
  std::vector<ByteForm> forms;
  ByteSet plain;
  const CharSet ascii = set & CharSet(kFirstPlain, 0x7F);
  for (const auto& [first, last] : ascii.ranges()) plain |= bytes(first, last);
  plain.reset('"').reset('\\');
  if (plain.any()) forms.push_back({plain});
  for (const Length& length : kLengths) {
    const CharSet of_length = set & CharSet(length.first, length.last);
    for (const auto& [first, last] : of_length.ranges())
      add_utf8(first, last, length.tail, length.lead, forms);
  }
  constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  for (size_t i = 0; i < kEscaped.size(); ++i) {
    if (set.has(kEscaped[i])) forms.push_back(text_form(std::string("\\") + kLetters[i]));
  }
  for (int32_t c = 0; c < kFirstPlain; ++c) {
    if (!set.has(c) || kEscaped.find(static_cast<char>(c)) != std::string_view::npos) continue;
    char text[8];
    std::snprintf(text, sizeof(text), "\\u%04x", static_cast<unsigned>(c));
    forms.push_back(text_form(text));
  }
  return forms;
}

}  // namespace mainspring
