"""The routes of deepwiki-open's backend."""
