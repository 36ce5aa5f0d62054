#include "pteron/extension/llm/tokenizer/normalize.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "pteron/extension/llm/tokenizer/utf8.h"

namespace pteron::llm {
namespace {

struct Decomposition {
  uint32_t point;
  uint16_t offset;  // in kPoints: the canonical one, then the compatibility one
  uint8_t canonical;
  uint8_t compatibility;
};

struct Class {
  uint32_t point;
  uint8_t value;
};

struct Composition {
  uint32_t first;
  uint32_t second;
  uint32_t composed;
};

#include "pteron/extension/llm/tokenizer/unicode_tables.inc"

struct Mark {
  uint32_t point;
  uint8_t combining_class;
};

// Hangul syllables are computed: 19 leading consonants, 21 vowels, 27 trailing consonants or none.
constexpr uint32_t kSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTrail = 0x11A7;
constexpr uint32_t kLeads = 19, kVowels = 21, kTrails = 28;

template <typename Row, size_t n>
const Row* find(const Row (&rows)[n], uint32_t point) {
  const Row* const found = std::lower_bound(
      rows, rows + n, point, [](const Row& row, uint32_t value) { return row.point < value; });
  return found != rows + n && found->point == point ? found : nullptr;
}

void add(uint32_t point, std::vector<Mark>* marks) {
  const Class* const found = find(kClasses, point);
  marks->push_back({point, found ? found->value : uint8_t{0}});
}

void decompose(uint32_t point, bool compatibility, std::vector<Mark>* marks) {
  if (const uint32_t index = point - kSyllable; index < kLeads * kVowels * kTrails) {
    marks->push_back({kLead + index / (kVowels * kTrails), 0});
    marks->push_back({kVowel + index / kTrails % kVowels, 0});
    if (index % kTrails) marks->push_back({kTrail + index % kTrails, 0});
  } else if (const Decomposition* const row = find(kDecompositions, point)) {
    const uint32_t* const points = kPoints + row->offset + (compatibility ? row->canonical : 0);
    const size_t count = compatibility ? row->compatibility : row->canonical;
    for (size_t i = 0; i < count; ++i) add(points[i], marks);
  } else {
    add(point, marks);
  }
}

// 0 if the two have no composition.
uint32_t compose(uint32_t first, uint32_t second) {
  if (first - kLead < kLeads && second - kVowel < kVowels) {
    return kSyllable + ((first - kLead) * kVowels + (second - kVowel)) * kTrails;
  }
  if (first - kSyllable < kLeads * kVowels * kTrails && (first - kSyllable) % kTrails == 0 &&
      second - kTrail - 1 < kTrails - 1) {
    return first + (second - kTrail);
  }
  const auto* const found = std::lower_bound(
      std::begin(kCompositions), std::end(kCompositions), Composition{first, second, 0},
      [](const Composition& a, const Composition& b) {
        return a.first != b.first ? a.first < b.first : a.second < b.second;
      });
  const bool is_found = found != std::end(kCompositions) && found->first == first;
  return is_found && found->second == second ? found->composed : 0;
}

std::vector<Mark> composed(const std::vector<Mark>& marks) {
  constexpr size_t kNone = SIZE_MAX;
  std::vector<Mark> result;
  size_t starter = kNone;
  for (const Mark& mark : marks) {
    const bool is_next = starter + 1 == result.size();
    if (starter != kNone && (is_next || result.back().combining_class < mark.combining_class)) {
      if (const uint32_t point = compose(result[starter].point, mark.point)) {
        result[starter].point = point;
        continue;
      }
    }
    if (mark.combining_class == 0) starter = result.size();
    result.push_back(mark);
  }
  return result;
}

}  // namespace

std::string normalize(std::string_view text, Form form) {
  const auto is_ascii = [](char c) { return static_cast<signed char>(c) >= 0; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) return std::string(text);
  std::vector<Mark> marks;
  marks.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    decompose(character.point, form == Form::kNfkc || form == Form::kNfkd, &marks);
    at += character.size;
  }
  const auto is_starter = [](const Mark& mark) { return mark.combining_class == 0; };
  for (auto begin = marks.begin(); begin != marks.end();) {
    begin = std::find_if_not(begin, marks.end(), is_starter);
    const auto end = std::find_if(begin, marks.end(), is_starter);
    std::stable_sort(begin, end, [](const Mark& a, const Mark& b) {
      return a.combining_class < b.combining_class;
    });
    begin = end;
  }
  if (form == Form::kNfc || form == Form::kNfkc) marks = composed(marks);
  std::string result;
  for (const Mark& mark : marks) append(&result, mark.point);
  return result;
}

}  // namespace pteron::llm
