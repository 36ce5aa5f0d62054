"""Backends for Apple's processors."""
