"""What a call may do, decided before it runs and explained: rules, autonomy, and the shell taken apart (X3)."""
