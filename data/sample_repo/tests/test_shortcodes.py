import unittest

from snip.shortcodes import encode_id, is_valid_code


class ShortcodeTest(unittest.TestCase):
    def test_no_two_links_share_a_code(self):
        codes = {encode_id(n) for n in range(1, 20_000)}
        self.assertEqual(len(codes), 19_999)

    def test_wished_codes_are_plain(self):
        self.assertTrue(is_valid_code("summer-sale_26"))
        for bad in ("ab", "a/b", "x" * 33, "naïve"):
            self.assertFalse(is_valid_code(bad))


if __name__ == "__main__":
    unittest.main()
