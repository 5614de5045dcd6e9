"""What watches over a turn: folds over facts with verdicts."""
