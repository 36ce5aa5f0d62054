"""From lowered programs to methods of a program file."""
