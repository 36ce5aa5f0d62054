"""Files of programs and of tensor data."""
