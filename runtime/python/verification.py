"""How much of a file is verified before use."""

import enum


class Verification(enum.Enum):
    """What `load_program` verifies. Code is checked against its digest at every level.

    Attributes:
      Minimal: the layout of the file, the digest of the program part and its structure.
      InternalConsistency: also the semantics of all methods.
      Full: also the digests of all segments, including weights; reads the whole file.
      Required: also that there is a digest for every byte of every file: files without digests,
        bytes between or after segments, and weights that the program does not name are errors.

    Data files must be those that the program was written with, but for Minimal, which takes any.
    """

    Minimal = 0
    InternalConsistency = 1
    Full = 2
    Required = 3
