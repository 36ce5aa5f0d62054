#include "pteron/runtime/executor/program.h"

#include <utility>

#include "pteron/runtime/core/catch_exceptions.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/method_loader.h"
#include "pteron/runtime/executor/method_meta_reader.h"
#include "pteron/runtime/executor/session.h"
#include "pteron/runtime/program_reader/program_data.h"

namespace pteron {

Program::Program(std::unique_ptr<ProgramData> data) : data_(std::move(data)) {}
Program::~Program() = default;

Result<std::shared_ptr<const Program>> Program::load(const std::string& path,
                                                     const LoadOptions& options) {
  return catch_exceptions([&]() -> Result<std::shared_ptr<const Program>> {
    LoadBudget budget(options.limits.load_bytes);
    PTERON_ASSIGN_OR_RETURN(FileBytes file, FileBytes::map(path));
    return load(std::move(file), options, budget);
  });
}

Result<std::shared_ptr<const Program>> Program::load(Span<const uint8_t> bytes,
                                                     std::shared_ptr<const void> owner,
                                                     const LoadOptions& options) {
  return catch_exceptions([&]() -> Result<std::shared_ptr<const Program>> {
    LoadBudget budget(options.limits.load_bytes);
    PTERON_ASSIGN_OR_RETURN(FileBytes file, FileBytes::from_memory({bytes, std::move(owner)},
                                                                   "program in memory", budget));
    return load(std::move(file), options, budget);
  });
}

Result<std::shared_ptr<const Program>> Program::load(FileBytes file, const LoadOptions& options,
                                                     LoadBudget& budget) {
  PTERON_RETURN_IF_ERROR(options.limits.check());
  PTERON_ASSIGN_OR_RETURN(std::unique_ptr<ProgramData> data,
                          ProgramData::read(std::move(file), options, budget));
  return std::shared_ptr<const Program>(new Program(std::move(data)));
}

std::vector<std::string> Program::method_names() const {
  std::vector<std::string> names;
  for (const schema::Method* const method : *data_->root().methods()) {
    names.push_back(method->name()->str());
  }
  return names;
}

Result<MethodMeta> Program::method_meta(std::string_view name) const {
  return catch_exceptions([&]() -> Result<MethodMeta> {
    PTERON_ASSIGN_OR_RETURN(const schema::Method* const method, data_->find_method(name));
    return read_method_meta(*data_, *method);
  });
}

Result<std::unique_ptr<Method>> Program::load_method(std::string_view name,
                                                     const LoadMethodOptions& options) const {
  return catch_exceptions([&]() -> Result<std::unique_ptr<Method>> {
    PTERON_ASSIGN_OR_RETURN(const schema::Method* const method, data_->find_method(name));
    return MethodLoader(shared_from_this(), *method, options).load();
  });
}

std::shared_ptr<Session> Program::new_session() const {
  return std::make_shared<Session>(shared_from_this());
}

const NamedDataMap& Program::named_data() const { return data_->named_data(); }
const std::string& Program::path() const { return data_->file().path(); }
uint64_t Program::file_nbytes() const { return data_->file().bytes().size(); }
bool Program::has_integrity_table() const { return data_->has_integrity_table(); }
Verification Program::verification() const { return data_->verification(); }

namespace {

void append(const Segments& segments, const std::string& file, std::vector<SegmentMeta>* metas) {
  for (size_t i = 0; i < segments.size(); ++i) {
    SegmentMeta meta;
    meta.file = file;
    meta.offset = segments.range(i).offset;
    meta.nbytes = segments.range(i).nbytes;
    meta.digest = segments.digest(i);
    metas->push_back(std::move(meta));
  }
}

}  // namespace

std::vector<SegmentMeta> Program::segments() const {
  std::vector<SegmentMeta> metas;
  append(data_->segments(), path(), &metas);
  for (const auto& file : data_->data_files()) {
    append(file->segments(), file->segments().file_name(), &metas);
  }
  return metas;
}

std::vector<NamedDataMeta> Program::named_data_entries() const {
  const DataMap& map = data_->named_data();
  std::vector<NamedDataMeta> metas;
  metas.reserve(map.num_keys());
  for (size_t i = 0; i < map.num_keys(); ++i) {
    NamedDataMeta meta;
    meta.key = *map.get_key(i);
    const DataMap::Entry& entry = *map.find(meta.key);
    meta.file = entry.segments->file_name();
    meta.nbytes = entry.bytes().size();
    meta.has_layout = entry.layout != nullptr;
    metas.push_back(meta);
  }
  return metas;
}

}  // namespace pteron
