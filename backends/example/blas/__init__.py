"""The BLAS backend: matmuls by OpenBLAS, and how to write a backend (see README.md)."""
