"""`python -m sideband.cli`."""

from sideband.cli import main

main()
