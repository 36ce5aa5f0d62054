"""The CPU backend's native half; its Python is tests only."""
