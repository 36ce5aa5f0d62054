"""Backends: each lowers parts of a program and runs them. Importing this imports none of them."""
