"""What the pages of a wiki say, read from the code."""
