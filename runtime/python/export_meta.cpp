#include "pteron/runtime/python/export_meta.h"

#include <cstddef>
#include <utility>
#include <variant>
#include <vector>

namespace pteron::python {
namespace {

PyObject* intern(const char* text) { return checked(PyUnicode_InternFromString(text)).release(); }

// Cached per process: creating a str per key would take as long as everything else.
struct Keys final {
  PyObject* const kind = intern("kind");
  PyObject* const dtype = intern("dtype");
  PyObject* const sizes = intern("sizes");
  PyObject* const dim_order = intern("dim_order");
  PyObject* const is_static = intern("is_static");
  PyObject* const nbytes = intern("nbytes");
  PyObject* const planned = intern("planned");
  PyObject* const constant = intern("constant");
  PyObject* const value = intern("value");
  PyObject* const symbolic = intern("symbolic");
  PyObject* const description = intern("description");
  PyObject* const name = intern("name");
  PyObject* const inputs = intern("inputs");
  PyObject* const outputs = intern("outputs");
  PyObject* const mutable_buffers = intern("mutable_buffers");
  PyObject* const backends = intern("backends");
  PyObject* const operators = intern("operators");
  PyObject* const planned_nbytes = intern("planned_nbytes");
  PyObject* const input_tree = intern("input_tree");
  PyObject* const output_tree = intern("output_tree");

  static const Keys& get() {
    static const Keys keys;
    return keys;
  }
};

// A dict under construction.
class Dict final {
 public:
  void set(PyObject* key, const Object& value) {
    if (PyDict_SetItem(dict_.get(), key, value.get()) != 0) throw PythonError();
  }
  Object take() { return std::move(dict_); }

 private:
  Object dict_ = checked(PyDict_New());
};

Object to_dict(const ValueMeta& meta) {
  const Keys& keys = Keys::get();
  Dict dict;
  dict.set(keys.name, to_object(meta.name));
  dict.set(keys.kind, to_object(name_of(meta.kind)));
  dict.set(keys.dtype, to_object(static_cast<int>(meta.dtype)));
  dict.set(keys.sizes, to_list(meta.sizes));
  dict.set(keys.dim_order, to_list(meta.dim_order));
  dict.set(keys.is_static, to_object(meta.dynamism == ShapeDynamism::Static));
  dict.set(keys.nbytes, to_object(meta.nbytes));
  dict.set(keys.planned, to_object(meta.planned));
  dict.set(keys.constant, to_object(meta.constant));
  dict.set(keys.value, std::visit([](const auto& value) { return to_object(value); }, meta.value));
  dict.set(keys.symbolic, to_object(meta.symbolic));
  dict.set(keys.description, to_object(meta.describe()));
  return dict.take();
}

Object to_dict(const MutableBufferMeta& meta) {
  const Keys& keys = Keys::get();
  Dict dict;
  dict.set(keys.name, to_object(meta.name));
  dict.set(keys.dtype, to_object(static_cast<int>(meta.dtype)));
  dict.set(keys.sizes, to_list(meta.sizes));
  dict.set(keys.nbytes, to_object(meta.nbytes));
  return dict.take();
}

template <typename Meta>
Object to_dicts(const std::vector<Meta>& metas) {
  return list_of(metas.size(), [&](size_t i) { return to_dict(metas[i]); });
}

}  // namespace

Object export_meta(const MethodMeta& meta) {
  const Keys& keys = Keys::get();
  Dict dict;
  dict.set(keys.name, to_object(meta.name));
  dict.set(keys.inputs, to_dicts(meta.inputs));
  dict.set(keys.outputs, to_dicts(meta.outputs));
  dict.set(keys.mutable_buffers, to_dicts(meta.mutable_buffers));
  dict.set(keys.backends, list_of(meta.delegates.size(), [&](size_t i) {
             return to_object(meta.delegates[i].backend_id);
           }));
  dict.set(keys.operators, to_list(meta.operators));
  dict.set(keys.planned_nbytes, to_object(meta.planned_nbytes()));
  dict.set(keys.input_tree, to_object(meta.input_tree));
  dict.set(keys.output_tree, to_object(meta.output_tree));
  return dict.take();
}

}  // namespace pteron::python
