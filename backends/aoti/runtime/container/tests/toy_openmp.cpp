// A library with the functions by which an OpenMP runtime is detected.
extern "C" __attribute__((visibility("default"))) int omp_get_num_threads() { return 1; }
