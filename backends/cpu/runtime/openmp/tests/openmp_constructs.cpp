// What g++ makes of OpenMP, as the kernels of a model have it: compiled with -fopenmp, linked
// without.
#include <omp.h>

#include <cstdint>

#define EXPORT extern "C" __attribute__((visibility("default")))

extern "C" void aoti_torch_check(bool condition, const char* function, const char* file,
                                 uint32_t line, const char* message);

EXPORT int64_t sum_of_squares(int64_t size, int threads) {
  int64_t sum = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : sum)
  for (int64_t i = 0; i < size; ++i) sum += i * i;
  return sum;
}

// Loops that wait for each other, of two dimensions, one member's work between them; returns how
// many members there were.
EXPORT int two_loops(float* data, float* copy, int64_t rows, int64_t columns, int threads) {
  int members = 0;
#pragma omp parallel num_threads(threads)
  {
#pragma omp for collapse(2)
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) data[r * columns + c] = static_cast<float>(r + c);
    }
#pragma omp single
    members = omp_get_num_threads();
#pragma omp for schedule(static, 1)
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        copy[r * columns + c] = data[(rows - 1 - r) * columns + c];
      }
    }
#pragma omp barrier
    if (omp_get_thread_num() == members - 1) data[0] = -1;
  }
  return members;
}

// Adds one a thousand times a member, under each kind of lock.
EXPORT void locked_counts(int64_t* unnamed, int64_t* named, long double* atomic, int threads) {
#pragma omp parallel num_threads(threads)
  for (int i = 0; i < 1000; ++i) {
#pragma omp critical
    ++*unnamed;
#pragma omp critical(of_a_name)
    {
#pragma omp critical(of_another)
      ++*named;
    }
#pragma omp atomic
    *atomic += 1.0L;
  }
}

EXPORT void settings(int* max_threads, int* processors, int* inside, int* outside) {
  omp_set_num_threads(5);
  *max_threads = omp_get_max_threads();
  *processors = omp_get_num_procs();
  *outside = omp_in_parallel();
#pragma omp parallel
  if (omp_get_thread_num() == 0) *inside = omp_in_parallel();
}

// rows[i] = table[indices[i]], checked as generated code checks; then a second loop.
EXPORT void gather(const float* table, int64_t size, const int64_t* indices, int64_t count,
                   float* rows, int threads) {
#pragma omp parallel num_threads(threads)
  {
#pragma omp for
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = indices[i];
      aoti_torch_check(index >= 0 && index < size, "gather", "openmp_constructs.cpp", __LINE__,
                       "index out of bounds: 0 <= index < size");
      rows[i] = table[index];
    }
#pragma omp for
    for (int64_t i = 0; i < count; ++i) rows[i] += 1.0f;
  }
}
