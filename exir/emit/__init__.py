"""Emits lowered programs as methods of a program file."""
