"""How much of a file is checked before it is used."""

import enum


class Verification(enum.Enum):
    """What `load_program` checks. Code is checked against its digest at every level.

    Attributes:
      Minimal: the layout of the file, the digest of the program part and its structure.
      InternalConsistency: and the meaning of all methods.
      Full: and the digests of all bytes, weights included; reads the whole file.
    """

    Minimal = 0
    InternalConsistency = 1
    Full = 2
