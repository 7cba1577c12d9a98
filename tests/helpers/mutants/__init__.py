"""Generic operator mutants: small changes of production code, each of which some unit test must notice."""
