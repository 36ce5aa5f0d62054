#include "pteron/runtime/python/export_meta.h"

#include <cstddef>
#include <variant>
#include <vector>

namespace pteron::python {
namespace {

void set(const Object& dict, PyObject* key, const Object& value) {
  if (PyDict_SetItem(dict.get(), key, value.get()) != 0) throw PythonError();
}

// The key is made once in a process: a new str for each takes as long as all the rest.
#define PTERON_SET(dict, key, value)                                                       \
  do {                                                                                     \
    static PyObject* const interned = checked(PyUnicode_InternFromString(#key)).release(); \
    set(dict, interned, value);                                                            \
  } while (false)

Object to_dict(const ValueMeta& meta) {
  Object dict = checked(PyDict_New());
  PTERON_SET(dict, name, to_object(meta.name));
  PTERON_SET(dict, kind, to_object(name_of(meta.kind)));
  PTERON_SET(dict, dtype, to_object(static_cast<int>(meta.dtype)));
  PTERON_SET(dict, sizes, to_list(meta.sizes));
  PTERON_SET(dict, dim_order, to_list(meta.dim_order));
  PTERON_SET(dict, is_static, to_object(meta.dynamism == ShapeDynamism::Static));
  PTERON_SET(dict, nbytes, to_object(meta.nbytes));
  PTERON_SET(dict, planned, to_object(meta.planned));
  PTERON_SET(dict, constant, to_object(meta.constant));
  PTERON_SET(dict, value,
             std::visit([](const auto& value) { return to_object(value); }, meta.value));
  PTERON_SET(dict, symbolic, to_object(meta.symbolic));
  PTERON_SET(dict, description, to_object(meta.describe()));
  return dict;
}

Object to_dict(const MutableBufferMeta& meta) {
  Object dict = checked(PyDict_New());
  PTERON_SET(dict, name, to_object(meta.name));
  PTERON_SET(dict, dtype, to_object(static_cast<int>(meta.dtype)));
  PTERON_SET(dict, sizes, to_list(meta.sizes));
  PTERON_SET(dict, nbytes, to_object(meta.nbytes));
  return dict;
}

template <typename Meta>
Object to_dicts(const std::vector<Meta>& metas) {
  return list_of(metas.size(), [&](size_t i) { return to_dict(metas[i]); });
}

}  // namespace

Object export_meta(const MethodMeta& meta) {
  Object dict = checked(PyDict_New());
  PTERON_SET(dict, name, to_object(meta.name));
  PTERON_SET(dict, inputs, to_dicts(meta.inputs));
  PTERON_SET(dict, outputs, to_dicts(meta.outputs));
  PTERON_SET(dict, mutable_buffers, to_dicts(meta.mutable_buffers));
  PTERON_SET(dict, backends, list_of(meta.delegates.size(), [&](size_t i) {
               return to_object(meta.delegates[i].backend_id);
             }));
  PTERON_SET(dict, operators, to_list(meta.operators));
  PTERON_SET(dict, planned_nbytes, to_object(meta.planned_nbytes()));
  PTERON_SET(dict, input_tree, to_object(meta.input_tree));
  PTERON_SET(dict, output_tree, to_object(meta.output_tree));
  return dict;
}

}  // namespace pteron::python
