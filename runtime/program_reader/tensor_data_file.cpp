#include "pteron/runtime/program_reader/tensor_data_file.h"

#include <utility>

#include "pteron/runtime/program_reader/flatbuffer_verifier.h"
#include "pteron/runtime/program_reader/integrity.h"
#include "pteron/runtime/program_reader/segment_ranges.h"
#include "pteron/runtime/schema/tensor_data_generated.h"

namespace pteron {

Result<std::unique_ptr<TensorDataFile>> TensorDataFile::read(FileBytes file) {
  auto data = std::unique_ptr<TensorDataFile>(new TensorDataFile);
  data->file_ = std::move(file);
  const std::string& name = data->file_.name();
  const Span<const uint8_t> bytes = data->file_.bytes();
  PTERON_ASSIGN_OR_RETURN(const FileLayout layout,
                          read_file_layout(bytes, FileKind::TensorData, name));
  PTERON_CHECK_OR_RETURN(
      verify_flatbuffer<schema::TensorData>(layout.flatbuffer, schema::TensorDataIdentifier()),
      Error::InvalidExternalData,
      "%s: its FlatBuffers part is damaged, or its lists and tables share their bytes, "
      "which no writer does",
      name.c_str());
  data->root_ = schema::GetTensorData(layout.flatbuffer.data());

  ErrorList errors;
  if (data->root_->version() != 0) {
    errors.add(Error::InvalidExternalData, "its schema version is %u, this runtime reads 0",
               data->root_->version());
  }
  std::vector<Segments::Range> ranges =
      read_segment_ranges(data->root_->segments(), layout, bytes.size(), &errors);
  if (const auto* const entries = data->root_->named_data()) {
    for (flatbuffers::uoffset_t i = 0; i < entries->size(); ++i) {
      const schema::TensorDataEntry* const entry = entries->Get(i);
      if (!entry->key() || entry->key()->size() == 0) {
        errors.add(Error::InvalidExternalData, "entry %u has no key", i);
      }
      if (entry->segment_index() >= ranges.size()) {
        errors.add(Error::InvalidExternalData, "entry %u is in segment %u of %zu", i,
                   entry->segment_index(), ranges.size());
      }
    }
  }
  if (!errors.empty()) {
    return Error(Error::InvalidExternalData, errors.to_error(name).message());
  }
  data->segments_ = Segments(bytes, std::move(ranges), layout.segment_digests, name);
  data->layout_ = layout;
  return data;
}

Error TensorDataFile::check_every_byte() const {
  return pteron::check_every_byte(file_.bytes(), layout_, segments_, Error::InvalidExternalData)
      .with_context(file_.name());
}

void TensorDataFile::add_to(DataMap* map) const {
  if (!root_->named_data()) return;
  for (const schema::TensorDataEntry* const entry : *root_->named_data()) {
    map->add(entry->key()->string_view(),
             {&segments_, entry->segment_index(), entry->tensor_layout()});
  }
}

}  // namespace pteron
