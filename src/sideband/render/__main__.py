"""`python -m sideband.render`: see what a model would be sent."""

from sideband.render.gallery import show

show(__name__)
