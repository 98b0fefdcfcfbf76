import unittest

from snip.sessions import SessionSigner

DAY = 24 * 3600


class Clock:
    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now


class SessionTest(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.signer = SessionSigner("0123456789abcdef", 14 * DAY, self.clock)

    def test_a_signed_session_names_its_user(self):
        self.assertEqual(self.signer.verify_session(self.signer.sign_session(7)), 7)

    def test_a_session_ends_after_its_lifetime(self):
        cookie = self.signer.sign_session(7)
        self.clock.now += 14 * DAY - 1
        self.assertEqual(self.signer.verify_session(cookie), 7)
        self.clock.now += 1
        self.assertIsNone(self.signer.verify_session(cookie))

    def test_a_changed_cookie_is_refused(self):
        payload, _, signature = self.signer.sign_session(7).partition(".")
        forged, _, _ = self.signer.sign_session(8).partition(".")
        self.assertIsNone(self.signer.verify_session(f"{forged}.{signature}"))
        self.assertIsNone(self.signer.verify_session(payload))
        self.assertIsNone(self.signer.verify_session(""))

    def test_another_key_refuses_the_session(self):
        other = SessionSigner("fedcba9876543210", 14 * DAY, self.clock)
        self.assertIsNone(other.verify_session(self.signer.sign_session(7)))

    def test_a_session_is_renewed_in_its_second_half(self):
        cookie = self.signer.sign_session(7)
        self.assertIsNone(self.signer.renew_if_old(cookie))
        self.clock.now += 8 * DAY
        renewed = self.signer.renew_if_old(cookie)
        self.clock.now += 13 * DAY
        self.assertEqual(self.signer.verify_session(renewed), 7)


if __name__ == "__main__":
    unittest.main()
