import json
import unittest

from snip.app import create_app
from snip.auth import hash_password, issue_token
from snip.config import Config
from snip.errors import NotFound, TooManyRequests, Unauthorized
from snip.http import Request


class AppTest(unittest.TestCase):
    def setUp(self):
        self.app = create_app(Config(database=":memory:", requests_per_minute=10))
        self.addCleanup(self.app.storage.close)
        ada = self.app.storage.add_user("ada", hash_password("engine"))
        self.bearer = {"authorization": "Bearer " + issue_token(self.app.storage, ada, "test")}

    def ask(self, method, path, fields=None, headers=None):
        body = json.dumps(fields).encode() if fields is not None else b""
        return self.app.handle_request(Request(method, path, headers or {}, body, "127.0.0.1"))

    def test_a_link_leads_where_it_was_told(self):
        made = self.ask("POST", "/links", {"url": "https://example.org/"}, self.bearer)
        followed = self.ask("GET", "/" + json.loads(made.body)["code"])
        self.assertEqual((followed.status, dict(followed.headers)["Location"]), (302, "https://example.org/"))
        self.assertEqual(self.app.clicks.flush(self.app.storage), 1)

    def test_without_a_token_nothing_is_made(self):
        with self.assertRaises(Unauthorized):
            self.ask("POST", "/links", {"url": "https://example.org/"})

    def test_a_browser_signs_in_and_stays_signed_in(self):
        signed_in = self.ask("POST", "/login", {"name": "ada", "password": "engine"})
        cookie = dict(signed_in.headers)["Set-Cookie"].partition(";")[0]
        listed = self.ask("GET", "/links", headers={"cookie": cookie})
        self.assertEqual(json.loads(listed.body), {"links": []})

    def test_a_flood_is_stopped(self):
        with self.assertRaises(TooManyRequests):
            for _ in range(11):
                self.ask("GET", "/health")

    def test_an_unknown_code_is_not_found(self):
        with self.assertRaises(NotFound):
            self.ask("GET", "/nothing")


if __name__ == "__main__":
    unittest.main()
