"""Whether a test failed, for fixtures that show what they saw."""

import pytest

FAILED = pytest.StashKey[bool]()
