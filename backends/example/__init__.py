"""Backends to learn from. They work, and they are small."""
