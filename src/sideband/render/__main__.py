"""`python -m sideband.render`: see what a model would be sent."""

import sys

from sideband.render.gallery import gallery

sys.stdout.write("\n\n".join(gallery()) + "\n")
