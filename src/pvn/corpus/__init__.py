"""What was said and flown: segments, files, statistics, vocabulary, alignment, LANI's readers, the generator."""
