// A small extension module: takes a buffer, throws across to Python.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cmath>
#include <stdexcept>

namespace {

using Doubles = pybind11::array_t<double, pybind11::array::c_style | pybind11::array::forcecast>;

// Euclidean norm of values [n]; throws std::invalid_argument when n is zero.
double norm(const Doubles& values) {
  if (values.size() == 0) {
    throw std::invalid_argument("norm: found no values, expected one or more");
  }
  double sum = 0;
  for (pybind11::ssize_t i = 0; i < values.size(); ++i) {
    sum += values.data()[i] * values.data()[i];
  }
  return std::sqrt(sum);
}

}  // namespace

PYBIND11_MODULE(_vector_math, m) { m.def("norm", &norm, pybind11::arg("values")); }
