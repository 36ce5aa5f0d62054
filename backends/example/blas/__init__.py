"""The BLAS backend: matrix products by OpenBLAS, and how to write a backend (see README.md)."""
