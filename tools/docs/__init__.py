"""The generated parts of the documentation, made from the code when the site is built."""
