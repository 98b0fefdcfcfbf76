"""The list of pages, and the text of each, written from the facts."""
