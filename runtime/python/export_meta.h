// Descriptions of methods as dicts, which method_meta.py reads. Needs the GIL; throws.
#pragma once

#include "pteron/runtime/executor/method_meta.h"
#include "pteron/runtime/python/python_object.h"

namespace pteron::python {

Object export_meta(const MethodMeta& meta);

}  // namespace pteron::python
