// Sizes of a pooling: depth, height and width; those that a tensor lacks have size 1.
#pragma once

#include <array>
#include <cstdint>

namespace pteron::slim {

struct PoolingShape {
  std::array<int64_t, 3> in{1, 1, 1};
  std::array<int64_t, 3> out{1, 1, 1};
  std::array<int64_t, 3> kernel{1, 1, 1};
  std::array<int64_t, 3> stride{1, 1, 1};
  std::array<int64_t, 3> padding{0, 0, 0};
  std::array<int64_t, 3> dilation{1, 1, 1};

  int64_t in_area() const { return in[0] * in[1] * in[2]; }
  int64_t out_area() const { return out[0] * out[1] * out[2]; }
};

}  // namespace pteron::slim
