"""Analysis of source text: languages, grammars, definitions, references, documentation, and their graph."""
