"""`python -m hatch_tensoracle` is the command line."""

import sys

from hatch_tensoracle.cli import main

sys.exit(main())
