"""The settings of a repository have the meanings and defaults that its own files give them."""

from __future__ import annotations

import pytest
from surveys import survey_of

from rag.wiki.facts.facts import facts_of


def found(texts: dict[str, str]) -> dict[str, tuple[str, str]]:
    return {one.name: (one.default, one.about) for one in facts_of(survey_of(texts)).settings}


@pytest.mark.parametrize(
    ("path", "text", "name", "default", "about"),
    [
        ("app/s.py", 'X = flag_from_env(\n    "APP_DEBUG",\n    False,\n)\n', "APP_DEBUG", "False", ""),
        (
            "app/s.py",
            '# The main page.\nURL = os.getenv("APP_URL", "/")\n',
            "APP_URL",
            '"/"',
            "The main page.",
        ),
        (
            "cmd/serve.go",
            'var f = cli.Flag{EnvVars: []string{"APP_PORT"}, Value: "80", Usage: "port of the server"}\n',
            "APP_PORT",
            '"80"',
            "port of the server",
        ),
        (
            "cmd/app.go",
            'viper.SetEnvPrefix("app")\ncmd.Flags().Int("log-level", 3, "how much is logged")\n',
            "APP_LOG_LEVEL",
            "3",
            "how much is logged",
        ),
        (
            "src/cli.rs",
            "struct A {\n    /// Where data is.\n"
            '    #[arg(long, env = "APP_DATA", default_value = "/data")]\n    data: String,\n}\n',
            "APP_DATA",
            '"/data"',
            "Where data is.",
        ),
        (
            "app/s.py",
            'class S(BaseSettings):\n    size: int = 9\n    model_config = Config(env_prefix="app_")\n',
            "APP_SIZE",
            "9",
            "",
        ),
        ("roles/kiln/defaults/main.yml", "# How hot.\nkiln_heat: 900\n", "kiln_heat", "900", "How hot."),
        ("chart/values.yaml", "pod:\n  # How many.\n  count: 2\n", "pod.count", "2", "How many."),
        ("chart/values.yaml", "replicas: 1  # How many pods run.\n", "replicas", "1", "How many pods run."),
        (
            "variables.tf",
            'variable "cidr" {\n  description = "The block of addresses"\n  default     = "10.0.0.0/16"\n}\n',
            "cidr",
            '"10.0.0.0/16"',
            "The block of addresses",
        ),
    ],
)
def test_a_setting_has_the_default_and_the_help_next_to_it(
    path: str, text: str, name: str, default: str, about: str
) -> None:
    assert found({path: text})[name] == (default, about)


@pytest.mark.parametrize(
    "text",
    [
        "| `APP_URL` | `/` | The address of the main page |\n",
        "- `APP_URL`: The address of the main page\n",
        "## `APP_URL`\n\nThe address of the main page\n",
    ],
)
def test_documents_say_what_a_variable_means(text: str) -> None:
    code = 'URL = os.getenv("APP_URL")\n'
    assert found({"app.py": code, "docs/settings.md": text})["APP_URL"][1] == "The address of the main page"


@pytest.mark.parametrize(
    "code",
    [
        'env["APP_FILE"] = path\n',
        'os.environ.setdefault("APP_MODULE", "x")\n',
        'agent = request.env["HTTP_AGENT"]\n',
        'if environment == "PRODUCTION":\n    pass\n',
    ],
)
def test_what_is_only_written_or_compared_is_no_setting(code: str) -> None:
    assert not found({"app.py": code})
