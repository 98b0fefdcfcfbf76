"""What source text says: languages, grammars, definitions, references, documentation, and their graph."""
