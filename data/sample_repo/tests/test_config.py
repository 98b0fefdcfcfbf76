import tempfile
import unittest
from pathlib import Path

from snip.config import load_config


class ConfigTest(unittest.TestCase):
    def test_the_environment_wins_over_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "snip.toml"
            path.write_text('port = 9000\nhost = "0.0.0.0"\n')
            config = load_config(path, {"SNIP_PORT": "9001"})
        self.assertEqual((config.host, config.port), ("0.0.0.0", 9001))

    def test_an_unknown_setting_is_named(self):
        with self.assertRaisesRegex(ValueError, "prot"):
            load_config(None, {"SNIP_PROT": "1"})


if __name__ == "__main__":
    unittest.main()
