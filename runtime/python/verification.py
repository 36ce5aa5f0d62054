"""How much of a file is verified before use."""

import enum


class Verification(enum.Enum):
    """What `load_program` verifies. Code is checked against its digest at every level.

    Attributes:
      Minimal: the layout of the file, the digest of the program part and its structure.
      InternalConsistency: also the semantics of all methods.
      Full: also the digests of all bytes, including weights; reads the whole file.
    """

    Minimal = 0
    InternalConsistency = 1
    Full = 2
