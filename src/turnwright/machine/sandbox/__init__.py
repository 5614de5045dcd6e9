"""What holds a command to its place: `reach.py` says what it may reach, `confining.py` makes it ready to run there."""
