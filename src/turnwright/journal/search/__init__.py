"""Finding words in conversations: what of a fact is searched, how it is cut into words, and the index of the file."""
