"""Contract test classes and fakes, for the tests of this package and of other backends."""
