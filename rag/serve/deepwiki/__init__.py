"""The routes of deepwiki-open's backend, for its frontend."""
