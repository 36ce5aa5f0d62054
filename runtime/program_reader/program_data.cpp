#include "pteron/runtime/program_reader/program_data.h"

#include <algorithm>
#include <set>
#include <utility>

#include "pteron/runtime/program_reader/file_layout.h"
#include "pteron/runtime/program_reader/flatbuffer_verifier.h"
#include "pteron/runtime/program_reader/integrity.h"
#include "pteron/runtime/program_reader/method_checks.h"
#include "pteron/runtime/program_reader/segment_ranges.h"

namespace pteron {
namespace {

using flatbuffers::uoffset_t;

template <typename Names>
std::string join(const Names& names) {
  std::string text;
  for (const auto& name : names) (text += text.empty() ? "" : ", ") += name;
  return text.empty() ? "none" : text;
}

}  // namespace

Result<Span<const uint8_t>> IndexedData::get(uint32_t index, size_t nbytes) const {
  const uoffset_t count = offsets_ ? offsets_->size() : 0;
  PTERON_CHECK_OR_RETURN(index > 0 && index < count, Error::InvalidProgram, "data index %u of %u",
                         index, count);
  const uint64_t offset = offsets_->Get(index);
  PTERON_CHECK_OR_RETURN(offset <= segment_.size() && nbytes <= segment_.size() - offset,
                         Error::InvalidProgram,
                         "%zu bytes at %llu go beyond their segment of %zu bytes", nbytes,
                         static_cast<unsigned long long>(offset), segment_.size());
  return Span<const uint8_t>(segment_.data() + offset, nbytes);
}

Result<std::unique_ptr<ProgramData>> ProgramData::read(FileBytes file, const LoadOptions& options,
                                                       LoadBudget& budget) {
  auto data = std::unique_ptr<ProgramData>(new ProgramData);
  data->file_ = std::move(file);
  data->verification_ = options.allowed_files ? Verification::Required : options.verification;
  data->limits_ = options.limits;
  const std::string& name = data->file_.name();
  PTERON_ASSIGN_OR_RETURN(const FileLayout layout,
                          read_file_layout(data->file_.bytes(), FileKind::Program, name));
  if (options.allowed_files) {
    PTERON_RETURN_IF_ERROR(check_allowed(layout, *options.allowed_files, name));
  }
  PTERON_CHECK_OR_RETURN(
      verify_flatbuffer<schema::Program>(layout.flatbuffer, schema::ProgramIdentifier()),
      Error::InvalidProgram,
      "%s: its FlatBuffers part is damaged, or its lists and tables share their bytes, "
      "which no writer does",
      name.c_str());
  data->root_ = schema::GetProgram(layout.flatbuffer.data());
  data->has_integrity_table_ = layout.has_integrity_table;
  if (options.allowed_backends) {
    PTERON_RETURN_IF_ERROR(data->check_backends(*options.allowed_backends));
  }
  for (const std::string& path : options.data_paths) {
    PTERON_ASSIGN_OR_RETURN(FileBytes bytes, FileBytes::map(path));
    PTERON_RETURN_IF_ERROR(data->add_data_file(std::move(bytes), options));
  }
  for (size_t i = 0; i < options.data_files.size(); ++i) {
    PTERON_ASSIGN_OR_RETURN(
        FileBytes bytes,
        FileBytes::from_memory(options.data_files[i],
                               "tensor data " + std::to_string(i) + " in memory", budget));
    PTERON_RETURN_IF_ERROR(data->add_data_file(std::move(bytes), options));
  }
  PTERON_RETURN_IF_ERROR(data->read_tables(layout));
  PTERON_RETURN_IF_ERROR(data->check_integrity(layout));
  return data;
}

// Before all other checks: disallowed backends are reported regardless of other errors.
Error ProgramData::check_backends(const std::vector<std::string>& allowed) const {
  std::set<std::string_view> found;
  if (root_->methods()) {
    for (const schema::Method* const method : *root_->methods()) {
      if (!method->delegates()) continue;
      for (const schema::Delegate* const delegate : *method->delegates()) {
        found.insert(delegate->id() ? delegate->id()->string_view() : "");
      }
    }
  }
  const bool all_allowed = std::all_of(found.begin(), found.end(), [&](std::string_view id) {
    return std::find(allowed.begin(), allowed.end(), id) != allowed.end();
  });
  PTERON_CHECK_OR_RETURN(all_allowed, Error::NotSupported,
                         "%s: it has delegates of these backends: %s; allowed are: %s. If you "
                         "trust the file, native code included, allow them all",
                         file_.name().c_str(), join(found).c_str(), join(allowed).c_str());
  return Error::Ok;
}

Error ProgramData::add_data_file(FileBytes file, const LoadOptions& options) {
  PTERON_ASSIGN_OR_RETURN(std::unique_ptr<TensorDataFile> data_file,
                          TensorDataFile::read(std::move(file)));
  if (options.allowed_files) {
    PTERON_RETURN_IF_ERROR(check_allowed(data_file->layout(), *options.allowed_files,
                                         data_file->segments().file_name()));
  }
  data_files_.push_back(std::move(data_file));
  return Error::Ok;
}

Error ProgramData::read_tables(const FileLayout& layout) {
  ErrorList errors;
  if (root_->version() != 0) {
    errors.add(Error::NotSupported, "its schema version is %u, this runtime reads 0",
               root_->version());
  }
  if (root_->inline_constants() && root_->inline_constants()->size() > 0) {
    errors.add(Error::NotSupported,
               "it has constants inside its FlatBuffers part, an old form; lower it again");
  }
  segments_ = Segments(
      file_.bytes(), read_segment_ranges(root_->segments(), layout, file_.bytes().size(), &errors),
      layout.segment_digests, file_.name());
  read_indexed_data(&errors);
  read_named_data(&errors);
  // The checks of methods rely on the tables.
  if (errors.empty()) read_methods(&errors);
  if (errors.empty() && verification_ != Verification::Minimal) {
    for (const schema::Method* const method : *root_->methods()) {
      check_method(*this, *method, &errors);
    }
  }
  return errors.to_error(file_.name());
}

void ProgramData::read_indexed_data(ErrorList* errors) {
  const auto read = [&](const schema::SegmentOffsets* table, const char* what) -> IndexedData {
    // A single entry is just the placeholder.
    if (!table || !table->offsets() || table->offsets()->size() <= 1) return {};
    if (table->segment_index() >= segments_.size()) {
      errors->add("%s are in segment %u of %zu", what, table->segment_index(), segments_.size());
      return {};
    }
    if (!is_aligned(table->offsets())) {
      errors->add("the offsets of %s are misaligned", what);
      return {};
    }
    return {segments_.bytes(table->segment_index()), table->offsets()};
  };
  constants_ = read(root_->constant_segment(), "constants");
  const auto* const mutable_segments = root_->mutable_segments();
  if (!mutable_segments || mutable_segments->size() == 0) return;
  if (mutable_segments->size() > 1) {
    errors->add("%u segments of initial values, at most one is possible", mutable_segments->size());
    return;
  }
  initial_values_ = read(mutable_segments->Get(0), "initial values");
}

void ProgramData::read_named_data(ErrorList* errors) {
  if (const auto* const entries = root_->named_data()) {
    for (uoffset_t i = 0; i < entries->size(); ++i) {
      const schema::NamedData* const entry = entries->Get(i);
      if (!entry->key() || entry->key()->size() == 0) {
        errors->add("named data %u has no key", i);
      } else if (entry->segment_index() >= segments_.size()) {
        errors->add("named data \"%s\" is in segment %u of %zu", entry->key()->c_str(),
                    entry->segment_index(), segments_.size());
      } else {
        named_data_.add(entry->key()->string_view(), {&segments_, entry->segment_index(), nullptr});
      }
    }
  }
  for (const auto& data_file : data_files_) data_file->add_to(&named_data_);
  named_data_.finish(errors);
}

// Checks that there are methods with unique names.
void ProgramData::read_methods(ErrorList* errors) {
  if (!root_->methods() || root_->methods()->size() == 0) {
    errors->add("it has no methods");
    return;
  }
  for (uoffset_t i = 0; i < root_->methods()->size(); ++i) {
    const schema::Method* const method = root_->methods()->Get(i);
    if (!method->name() || method->name()->size() == 0) {
      errors->add("method %u has no name", i);
    } else {
      methods_.push_back(method);
    }
  }
  std::sort(methods_.begin(), methods_.end(), [](const auto* a, const auto* b) {
    return a->name()->string_view() < b->name()->string_view();
  });
  for (size_t i = 1; i < methods_.size(); ++i) {
    if (methods_[i]->name()->string_view() == methods_[i - 1]->name()->string_view()) {
      errors->add("method \"%s\" is there twice", methods_[i]->name()->c_str());
    }
  }
}

Error ProgramData::check_integrity(const FileLayout& layout) const {
  if (verification_ == Verification::Minimal) return Error::Ok;
  const bool required = verification_ == Verification::Required;
  ErrorList errors;
  if (required) {
    errors.add(check_every_byte(file_.bytes(), layout, segments_, Error::InvalidProgram));
    for (const auto& data_file : data_files_) errors.add(data_file->check_every_byte());
  }
  ExternalDigests digests;
  PTERON_RETURN_IF_ERROR(
      read_external_digests(named_data_, segments_, &digests).with_context(file_.name()));
  check_external_data(named_data_, segments_, digests, required, &errors);
  PTERON_RETURN_IF_ERROR(errors.to_error(file_.name()));
  if (verification_ == Verification::InternalConsistency) return Error::Ok;
  std::vector<const Segments*> files = {&segments_};
  for (const auto& data_file : data_files_) files.push_back(&data_file->segments());
  return verify_all(files);
}

Result<const schema::Method*> ProgramData::find_method(std::string_view name) const {
  const auto found = std::lower_bound(methods_.begin(), methods_.end(), name,
                                      [](const auto* method, std::string_view wanted) {
                                        return method->name()->string_view() < wanted;
                                      });
  if (found == methods_.end() || (*found)->name()->string_view() != name) {
    std::vector<std::string_view> names;
    for (const schema::Method* const method : *root_->methods()) {
      names.push_back(method->name()->string_view());
    }
    return make_error(Error::NotFound, "%s: no method \"%.*s\"; it has %s", file_.name().c_str(),
                      static_cast<int>(name.size()), name.data(), join(names).c_str());
  }
  if (verification_ == Verification::Minimal) {
    ErrorList errors;
    check_method(*this, **found, &errors);
    PTERON_RETURN_IF_ERROR(errors.to_error(file_.name()));
  }
  return *found;
}

Span<const uint8_t> ProgramData::processed(const schema::Delegate& delegate) const {
  const schema::DelegateData& data = *delegate.processed();
  if (data.location() == schema::DelegateDataLocation::Segment)
    return segments_.bytes(data.index());
  const auto* const bytes = root_->inline_delegate_data()->Get(data.index())->data();
  return bytes ? Span<const uint8_t>(bytes->data(), bytes->size()) : Span<const uint8_t>();
}

Error ProgramData::verify_processed(const schema::Delegate& delegate) const {
  const schema::DelegateData& data = *delegate.processed();
  // Inline bytes are covered by the digest of the FlatBuffers part.
  if (data.location() != schema::DelegateDataLocation::Segment) return Error::Ok;
  return segments_.verify(data.index());
}

}  // namespace pteron
