"""What each node of a run took, kept while and after it runs."""
