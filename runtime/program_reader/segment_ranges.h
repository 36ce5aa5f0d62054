// Converts a file's segment table to validated ranges.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "flatbuffers/flatbuffers.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/program_reader/error_list.h"
#include "pteron/runtime/program_reader/file_layout.h"
#include "pteron/runtime/program_reader/segments.h"

namespace pteron {

// `table` (may be null) lists offset and size of each segment, as both schemas do. A range outside
// the segment base and the end of the file is an error, and empty in the result; so are overlapping
// ranges, since checking their digests could read the same bytes many times. A file with only empty
// segments needs no segment base.
template <typename SchemaSegment>
std::vector<Segments::Range> read_segment_ranges(
    const flatbuffers::Vector<flatbuffers::Offset<SchemaSegment>>* table, const FileLayout& layout,
    uint64_t file_nbytes, ErrorList* errors) {
  const size_t count = table ? table->size() : 0;
  bool all_empty = true;
  for (size_t i = 0; i < count; ++i) {
    all_empty = all_empty && table->Get(static_cast<flatbuffers::uoffset_t>(i))->size() == 0;
  }
  if (!all_empty && !layout.has_segments) {
    errors->add("%zu segments, and a header that does not say where they begin", count);
  }
  if (layout.has_integrity_table && layout.num_digests != count) {
    errors->add("%zu segments and %u digests", count, layout.num_digests);
  }
  std::vector<Segments::Range> ranges(count);
  for (size_t i = 0; i < count && layout.has_segments; ++i) {
    const auto* const segment = table->Get(static_cast<flatbuffers::uoffset_t>(i));
    const uint64_t available = file_nbytes - layout.segment_base;
    if (segment->offset() > available || segment->size() > available - segment->offset()) {
      errors->add("segment %zu (%llu bytes at %llu) goes beyond the %llu bytes of segments", i,
                  static_cast<unsigned long long>(segment->size()),
                  static_cast<unsigned long long>(segment->offset()),
                  static_cast<unsigned long long>(available));
      continue;
    }
    ranges[i] = {layout.segment_base + segment->offset(), segment->size()};
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < count; ++i) {
    if (ranges[i].nbytes > 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return ranges[a].offset < ranges[b].offset; });
  for (size_t k = 1; k < order.size(); ++k) {
    const Segments::Range& before = ranges[order[k - 1]];
    if (ranges[order[k]].offset - before.offset < before.nbytes) {
      errors->add("segments %zu and %zu overlap", order[k - 1], order[k]);
    }
  }
  return ranges;
}

}  // namespace pteron
