"""The CPU backend's native half; its only Python code is tests."""
