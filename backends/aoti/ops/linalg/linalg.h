// Linear systems and factorizations, following LAPACK.
#pragma once

#include <cstdint>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// Column-major and dense.
struct ColumnMajor {
  void* data = nullptr;
  int64_t rows = 0, cols = 0;
};

// One matrix at a time, float32 or float64, not empty.
struct LinalgCall {
  enum class Kind {
    kLu,               // a = its factors, with `pivots`
    kLuSolve,          // b = a^-1 b, by factors and pivots; a^-T b if `transposed`
    kCholesky,         // a triangle of a = its factor; the other triangle is unchanged
    kCholeskySolve,    // b = a^-1 b, by a factor
    kTriangularSolve,  // b = a^-1 b, or b a^-1 if `right`; a^-T if `transposed`
    kQr,               // a = R, with reflectors below it, and `tau`
    kQ,                // a = Q, from `num_reflectors` in its columns and `tau`
    kTriangle,         // a = its triangle, zero elsewhere
    kIdentity,         // a = 1 on its diagonal, zeros elsewhere
    kDeterminant,      // `determinant`, of factors and pivots
    kClampPivots,      // `pivots` in 1..a.rows; called where they cannot be checked
    kEigh,             // a = eigenvectors if `vectors`; `values` in ascending order
    kSvd,              // `values`, and `b` (U) and `vh` if `vectors`; a is overwritten
  };

  Kind kind;
  slim::DType dtype;
  Device device;
  ColumnMajor a, b = {};
  int32_t* pivots = nullptr;  // counted from 1
  int32_t* info = nullptr;    // 0, or the first column (counted from 1) where a factor is singular;
                              // kEigh, kSvd: 0, or another number without convergence
  void* tau = nullptr;
  int64_t num_reflectors = 0;
  void* determinant[3] = {};  // determinant, its sign, log of its absolute value; each may be null
  bool upper = false, right = false, transposed = false, unit_diagonal = false;
  void* values = nullptr;  // eigenvalues of the triangle `upper` says, or singular values
  ColumnMajor vh = {};     // b and vh are whole, or have as many columns and rows as values
  bool vectors = false;
};

}  // namespace pteron::aoti
