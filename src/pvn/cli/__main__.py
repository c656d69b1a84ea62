"""`python -m pvn.cli` is `pvn`."""

from pvn.cli import main

main()
