"""How values look in a notebook and on a page: HTML, drawings in SVG, tables of pandas.

Everything is made from values alone and loads nothing: all text of a repository is escaped.
"""
