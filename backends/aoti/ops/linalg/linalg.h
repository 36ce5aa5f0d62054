// Systems of linear equations and factors of matrices, as LAPACK has them.
#pragma once

#include <cstdint>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// The columns lie one after another, without gaps.
struct ColumnMajor {
  void* data = nullptr;
  int64_t rows = 0, cols = 0;
};

// One matrix at a time, of float32 or float64; none is empty.
struct LinalgCall {
  enum class Kind {
    kLu,               // a = its factors, with `pivots`
    kLuSolve,          // b = a^-1 b, by factors and pivots; a^-T b if `transposed`
    kCholesky,         // a triangle of a = its factor; the other one stays
    kCholeskySolve,    // b = a^-1 b, by a factor
    kTriangularSolve,  // b = a^-1 b, or b a^-1 if `right`; a^-T if `transposed`
    kQr,               // a = R, and below it reflectors, with `tau`
    kQ,                // a = Q, of the `num_reflectors` in its columns and in `tau`
    kTriangle,         // a = its triangle, zeros elsewhere
    kIdentity,         // a = 1 on its diagonal, zeros elsewhere
    kDeterminant,      // `determinant`, of factors and pivots
  };

  Kind kind;
  slim::DType dtype;
  Device device;
  ColumnMajor a, b = {};
  int32_t* pivots = nullptr;  // counted from 1
  int32_t* info = nullptr;    // 0, or the first column (counted from 1) where a factor is singular
  void* tau = nullptr;
  int64_t num_reflectors = 0;
  void* determinant[3] = {};  // itself, its sign, the logarithm of its size; each may be null
  bool upper = false, right = false, transposed = false, unit_diagonal = false;
};

}  // namespace pteron::aoti
