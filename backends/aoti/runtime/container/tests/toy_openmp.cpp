// What makes a library an OpenMP runtime to whoever looks for one.
extern "C" __attribute__((visibility("default"))) int omp_get_num_threads() { return 1; }
