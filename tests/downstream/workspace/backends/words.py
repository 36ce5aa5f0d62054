"""A module in a folder of a name that Pteron has, too."""

WORDS = "backends"
