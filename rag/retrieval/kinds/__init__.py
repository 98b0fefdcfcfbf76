"""Answers to questions of known kinds, found by the rules of the kind instead of by ranking.

`recognition` decides by the words of a question of which kinds it is. Each kind is a module, imported when a
question is of the kind: `find(asked)` returns the facts, or None if the rules find nothing certain: then the
search alone answers.
The rules read the text of a few of the best files, as it was indexed: lines, indentation and brackets of any
language. Nothing is parsed by a grammar and nothing is executed.
"""
