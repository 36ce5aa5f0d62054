"""The BLAS backend: matmuls with OpenBLAS, as a tutorial for writing backends (see README.md)."""
