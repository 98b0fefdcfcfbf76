"""`python -m snip`."""

import sys

from snip.cli import main

sys.exit(main())
