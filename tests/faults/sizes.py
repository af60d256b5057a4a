"""How much is tried: a little in the test suite, very much in the soak.

The profile of the property tests (`HYPOTHESIS_PROFILE`) chooses; a variable of its own sets one size alone.
"""

import os
from typing import Final

PROFILE: Final = os.environ.get("HYPOTHESIS_PROFILE", "default")


def size(variable: str, *, small: int, soak: int) -> int:
    """What `variable` of the environment says, or else the size of the profile."""
    return int(os.environ.get(variable) or (soak if PROFILE == "soak" else small))
