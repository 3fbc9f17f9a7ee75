"""Makes the fixtures of tests/support/outboxtest known to every suite in Python."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "support"))

from outboxtest.fixtures import *  # noqa: E402,F401,F403
