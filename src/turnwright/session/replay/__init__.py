"""The turn loop over what was recorded: every port answers from the journal, and every fact is held against it (R4)."""
