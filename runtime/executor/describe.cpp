#include "pteron/runtime/executor/describe.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "pteron/runtime/backend/interface.h"
#include "pteron/runtime/core/printable.h"
#include "pteron/runtime/kernel/registry.h"

namespace pteron {
namespace {

__attribute__((format(printf, 2, 3))) void append(std::string& text, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char line[512];
  const auto length = static_cast<size_t>(vsnprintf(line, sizeof line, format, arguments));
  va_end(arguments);
  text.append(line, std::min(length, sizeof line - 1));
  if (length >= sizeof line) text += "...\n";
}

void append_indented(std::string& text, const std::string& lines, const char* indent) {
  size_t start = 0;
  while (start < lines.size()) {
    const size_t end = std::min(lines.find('\n', start), lines.size());
    text += indent + printable(lines.substr(start, end - start)) + "\n";
    start = end + 1;
  }
}

void describe_values(std::string& text, const char* what, const std::vector<ValueMeta>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const char* memory = values[i].constant                    ? ", constant"
                         : values[i].kind != ValueKind::Tensor ? ""
                         : values[i].planned                   ? ""
                                                               : ", caller's memory";
    append(text, "  %-8s%2zu  %s%s%s\n", what, i, values[i].describe().c_str(), memory,
           values[i].device.type == DeviceType::CUDA ? ", on CUDA" : "");
  }
}

void describe_memory(std::string& text, const MethodMeta& meta) {
  append(text, "  memory      %s planned", human_nbytes(meta.planned_nbytes()).c_str());
  if (meta.pools.size() > 1) {
    append(text, " in %zu pools (", meta.pools.size());
    for (size_t i = 0; i < meta.pools.size(); ++i) {
      append(text, "%s%s%s", i ? ", " : "", human_nbytes(meta.pools[i].nbytes).c_str(),
             meta.pools[i].device.type == DeviceType::CUDA ? " on CUDA" : "");
    }
    text += ")";
  }
  append(text, ", %s of constants\n", human_nbytes(meta.constant_nbytes).c_str());
}

void describe_state(std::string& text, const MethodMeta& meta) {
  for (const MutableBufferMeta& buffer : meta.mutable_buffers) {
    std::string sizes;
    for (const int64_t size : buffer.sizes)
      sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
    append(text, "  state       %s: %s[%s], %s%s\n", printable(buffer.name).c_str(),
           name_of(buffer.dtype), sizes.c_str(), human_nbytes(buffer.nbytes).c_str(),
           buffer.has_initial_value ? ", initial value in the file" : "");
  }
}

// Shows text; for binary data only its size.
std::string spec_value(Span<const uint8_t> value) {
  constexpr size_t kShown = 60;
  const bool printable =
      std::all_of(value.begin(), value.end(), [](uint8_t c) { return c >= 0x20 && c < 0x7f; });
  if (!printable || value.size() > kShown) return human_nbytes(value.size());
  return "\"" + std::string(value.begin(), value.end()) + "\"";
}

void describe_delegates(std::string& text, const Program& program, const MethodMeta& meta) {
  for (size_t i = 0; i < meta.delegates.size(); ++i) {
    const DelegateMeta& delegate = meta.delegates[i];
    const std::string id(delegate.backend_id);
    const BackendInterface* backend = find_backend(id);
    append(text, "  delegate%2zu  %s%s\n", i, printable(id).c_str(),
           backend ? "" : ", a backend that is not in this program");
    for (const CompileSpec& spec : delegate.compile_specs) {
      append(text, "    spec      %s = %s\n", printable(spec.key).c_str(),
             spec_value(spec.value).c_str());
    }
    if (backend) {
      append_indented(
          text,
          backend->describe(program.named_data(), delegate.processed,
                            {delegate.compile_specs.data(), delegate.compile_specs.size()}),
          "    ");
    }
  }
}

void describe_method(std::string& text, const Program& program, const MethodMeta& meta) {
  append(text, "\nmethod %s: %zu instructions, %zu values\n", printable(meta.name).c_str(),
         meta.num_instructions, meta.num_values);
  describe_values(text, "input", meta.inputs);
  describe_values(text, "output", meta.outputs);
  describe_memory(text, meta);
  describe_state(text, meta);
  describe_delegates(text, program, meta);
  for (const std::string& name : meta.operators) {
    append(text, "  kernel      %s%s\n", printable(name).c_str(),
           find_kernel(name) ? "" : ", which is not in this program");
  }
}

void describe_data(std::string& text, const Program& program) {
  const std::vector<NamedDataMeta> entries = program.named_data_entries();
  if (!entries.empty()) append(text, "\nnamed data: %zu\n", entries.size());
  for (const NamedDataMeta& entry : entries) {
    const bool elsewhere = entry.file != program.path();
    append(text, "  %10s  %s%s%s\n", human_nbytes(entry.nbytes).c_str(),
           printable(entry.key).c_str(), elsewhere ? "  in " : "",
           elsewhere ? printable(entry.file).c_str() : "");
  }
  const std::vector<SegmentMeta> segments = program.segments();
  if (!segments.empty()) append(text, "\nsegments: %zu\n", segments.size());
  for (size_t i = 0; i < segments.size(); ++i) {
    const SegmentMeta& segment = segments[i];
    append(text, "  %10s  at %llu%s%s\n", human_nbytes(segment.nbytes).c_str(),
           static_cast<unsigned long long>(segment.offset),
           segment.digest.empty() ? "" : "  sha256 ", segment.digest.substr(0, 16).c_str());
  }
}

}  // namespace

std::string human_nbytes(uint64_t nbytes) {
  if (nbytes < 1000) return std::to_string(nbytes) + " B";
  static constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB"};
  double value = static_cast<double>(nbytes) / 1000;
  size_t unit = 0;
  for (; value >= 999.95 && unit < 3; ++unit) value /= 1000;
  char text[32];
  snprintf(text, sizeof text, "%.1f %s", value, kUnits[unit]);
  return text;
}

Result<std::string> describe(const Program& program) {
  std::string text;
  const char* integrity =
      !program.has_integrity_table() ? "no digests in the file"
      : program.verification() >= Verification::Full
          ? "all digests checked"
          : "digest of the program part checked; code is checked before it runs, "
            "weights under full verification (Verification.Full; the runner's --verification=full)";
  append(text, "program %s: %s\nintegrity: %s\n", printable(program.path()).c_str(),
         human_nbytes(program.file_nbytes()).c_str(), integrity);
  for (const std::string& name : program.method_names()) {
    PTERON_ASSIGN_OR_RETURN(const MethodMeta meta, program.method_meta(name));
    describe_method(text, program, meta);
  }
  describe_data(text, program);
  return text;
}

}  // namespace pteron
