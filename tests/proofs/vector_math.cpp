// A small extension module: takes a buffer, throws across to Python.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cmath>
#include <stdexcept>

namespace {

namespace nb = nanobind;

using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Euclidean norm of values [n]; throws std::invalid_argument when n is zero.
double norm(const Doubles& values) {
  if (values.size() == 0) {
    throw std::invalid_argument("norm: found no values, expected one or more");
  }
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += values.data()[i] * values.data()[i];
  }
  return std::sqrt(sum);
}

}  // namespace

NB_MODULE(_vector_math, m) { m.def("norm", &norm, nb::arg("values")); }
