import unittest

from snip.auth import authenticate, check_password, hash_password, issue_token
from snip.errors import Unauthorized
from snip.storage import Storage


class AuthTest(unittest.TestCase):
    def setUp(self):
        self.storage = Storage(":memory:")
        self.addCleanup(self.storage.close)
        self.ada = self.storage.add_user("ada", hash_password("engine"))

    def test_a_token_names_its_user(self):
        token = issue_token(self.storage, self.ada, "laptop")
        self.assertEqual(authenticate(self.storage, f"Bearer {token}"), self.ada)

    def test_a_revoked_token_is_refused(self):
        token = issue_token(self.storage, self.ada, "laptop")
        self.assertEqual(self.storage.revoke_tokens(self.ada.id, "laptop"), 1)
        with self.assertRaises(Unauthorized):
            authenticate(self.storage, f"Bearer {token}")

    def test_another_scheme_is_refused(self):
        with self.assertRaises(Unauthorized):
            authenticate(self.storage, "Basic YWRhOmVuZ2luZQ==")

    def test_a_password_is_checked(self):
        self.assertEqual(check_password(self.storage, "ada", "engine"), self.ada)
        for name, password in (("ada", "wrong"), ("nobody", "engine"), ("nobody", "")):
            with self.assertRaises(Unauthorized):
                check_password(self.storage, name, password)


if __name__ == "__main__":
    unittest.main()
