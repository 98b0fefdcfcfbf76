"""Secrets: each kind is found in tokens made as its issuer makes them, and ordinary code is none."""

import hashlib
import random
import string
import time
import tomllib

import pytest

from rag.corpus import SECRET_RULES_VERSION
from rag.corpus.secrets import _rules, find_secret, without_secrets
from rag.resources import shipped

UPPER, LOWER, DIGITS = string.ascii_uppercase, string.ascii_lowercase, string.digits
ALNUM = UPPER + LOWER + DIGITS
URL64 = ALNUM + "-_"
BASE32 = UPPER + "234567"
HEX = DIGITS + "abcdef"
TOKENS = 400
RECALL = 0.98

FORMATS = {
    # kind: the token as its issuer documents it, in a line as it stands in settings or code; [A*n] is n of A
    "AWS access key": "aws_access_key_id = AKIA[B*16]",
    "AWS temporary key": 'os.environ["AWS_ACCESS_KEY_ID"] = "ASIA[B*16]"',
    "GitHub personal token": "GITHUB_TOKEN=ghp_[A*36]",
    "GitHub OAuth token": "token: gho_[A*36]",
    "GitHub app token": "token: ghs_[A*36]",
    "GitHub fine-grained token": "github_pat_[A*22]_[A*59]",
    "GitLab personal token": "glpat-[U*20]",
    "GitLab runner token": 'token = "glrt-[U*20]"',
    "GitLab trigger token": 'token = "glptt-[X*40]"',
    "OpenAI project key": 'client = OpenAI(api_key="sk-proj-[U*74]T3BlbkFJ[U*74]")',
    "OpenAI service account key": "OPENAI_API_KEY=sk-svcacct-[U*74]T3BlbkFJ[U*74]",
    "OpenAI older key": "OPENAI_API_KEY=sk-[A*20]T3BlbkFJ[A*20]",
    "Anthropic key": "ANTHROPIC_API_KEY=sk-ant-api03-[U*93]AA",
    "Stripe live key": 'stripe.api_key = "sk_live_[A*24]"',
    "Stripe restricted key": 'stripe.api_key = "rk_live_[A*24]"',
    "Slack bot token": "SLACK_TOKEN=xoxb-[D*12]-[D*13]-[A*24]",
    "Slack user token": "SLACK_TOKEN=xoxp-[D*12]-[D*12]-[D*13]-[X*32]",
    "Slack webhook": 'url = "https://hooks.slack.com/services/T[C*8]/B[C*10]/[A*24]"',
    "Google API key": 'key: "AIza[U*35]"',
    "Google OAuth secret": '"client_secret": "GOCSPX-[U*28]"',
    "npm token": "//registry.npmjs.org/:_authToken=npm_[A*36]",
    "npm registry token": "//npm.corp.net/:_authToken=[A*40]",
    "PyPI token": "password = pypi-AgEIcHlwaS5vcmc[U*150]",
    "SendGrid key": "SENDGRID_API_KEY='SG.[U*22].[U*43]'",
    "Hugging Face token": "HF_TOKEN=hf_[A*34]",
    "Telegram bot token": 'TELEGRAM_TOKEN = "[D*10]:AA[U*33]"',
    "Discord bot token": 'DISCORD_TOKEN = "M[A*25].[U*6].[U*38]"',
    "Twilio API key": "TWILIO_KEY=SK[X*32]",
    "Twilio auth token": 'twilio_auth_token: "[X*32]"',
    "DigitalOcean token": "DO_TOKEN=dop_v1_[X*64]",
    "Databricks token": 'DATABRICKS_TOKEN="dapi[X*32]"',
    "Azure storage key": "AccountName=x;AccountKey=[S*86]==;EndpointSuffix=core.windows.net",
    "Azure bus key": "SharedAccessKeyName=Root;SharedAccessKey=[S*43]=",
    "Vault service token": "VAULT_TOKEN=hvs.[U*95]",
    "Doppler token": "DOPPLER_TOKEN=dp.pt.[A*43]",
    "Shopify access token": "SHOPIFY=shpat_[X*32]",
    "Linear key": "LINEAR_API_KEY=lin_api_[A*40]",
    "Groq key": "GROQ_API_KEY=gsk_[A*52]",
    "xAI key": "XAI_API_KEY=xai-[A*80]",
    "Replicate token": "REPLICATE_API_TOKEN=r8_[A*37]",
    "Docker token": "DOCKER_PASSWORD=dckr_pat_[U*27]",
    "age key": "AGE-SECRET-KEY-1[G*58]",
    "key of rag serve": "RAG_SERVER_KEYS=rag-[U*43]",
    "OpenRouter key": "OPENROUTER_API_KEY=sk-or-v1-[X*64]",
    "NVIDIA key": "NVIDIA_API_KEY=nvapi-[U*64]",
    "Grafana service account": "GRAFANA=glsa_[A*32]_[X*8]",
    "Postman key": "POSTMAN=PMAK-[X*24]-[X*34]",
    "Pulumi token": "PULUMI_ACCESS_TOKEN=pul-[X*40]",
    "RubyGems key": "GEM_HOST_API_KEY=rubygems_[X*48]",
    "Tailscale key": "TS_AUTHKEY=tskey-auth-k[A*11]CNTRL-[A*32]",
    "JSON web token": 'ACCESS_TOKEN = "eyJ[A*33].eyJ[U*80].[U*43]"',
}
ALPHABETS = {
    "A": ALNUM,
    "B": BASE32,
    "C": UPPER + DIGITS,
    "D": DIGITS,
    "G": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "S": ALNUM + "+/",
    "U": URL64,
    "X": HEX,
}


def made(form: str, rng: random.Random) -> str:
    parts = form.split("[")
    text = parts[0]
    for part in parts[1:]:
        what, _, rest = part.partition("]")
        name, star, count = what.partition("*")
        text += "".join(rng.choices(ALPHABETS[name], k=int(count))) + rest if star else f"[{part}"
    return text


@pytest.mark.parametrize("kind", FORMATS)
def test_recall_of_generated_tokens(kind: str) -> None:
    rng = random.Random(f"{kind} 2026")
    texts = [f"import os\n\n{made(FORMATS[kind], rng)}\nrest = 1\n" for _ in range(TOKENS)]
    missed = [text for text in texts if find_secret(text) is None]
    assert len(missed) <= (1 - RECALL) * TOKENS, f"{kind}: {len(missed)} of {TOKENS} missed, as {missed[0]!r}"


def test_there_are_enough_kinds() -> None:
    assert len(FORMATS) >= 40
    assert len(_rules().rules) >= 150


def test_rules_are_those_of_the_version() -> None:
    """Stores are rebuilt by the version, so nobody may change the rules without it."""
    files = [(shipped("data/secrets") / name).read_bytes() for name in ("gitleaks.toml", "rules.toml")]
    known = {"gitleaks-8.30.1+1": "0b825b199ee37b15"}
    assert hashlib.sha256(b"".join(files)).hexdigest()[:16] == known[SECRET_RULES_VERSION]


def test_names_of_unused_rules_exist() -> None:
    theirs = tomllib.loads((shipped("data/secrets") / "gitleaks.toml").read_text())
    ours = tomllib.loads((shipped("data/secrets") / "rules.toml").read_text())
    assert set(ours["unused"]) <= {rule["id"] for rule in theirs["rules"]}


def test_a_rule_for_some_files_is_applied_to_them_alone() -> None:
    text = 'resource "x" "y" {\n  password = "kJ8mQz-pL2v_t"\n}\n'
    assert find_secret(text, "main.tf") == "hashicorp tf password on line 2"
    assert find_secret(text) is None, "a rule for some files is for no other text, such as an answer"
    assert find_secret(text, "main.py") is None


def test_a_line_that_says_so_is_allowed() -> None:
    token = "ghp_" + "".join(random.Random(5).choices(ALNUM, k=36))
    assert find_secret(f"a = 1\nb = '{token}'  # gitleaks:allow\n") is None
    assert find_secret(f"a = 1\nb = '{token}'\n") == "github pat on line 2"


def test_the_first_secret_of_a_text_is_named() -> None:
    rng = random.Random(7)
    later, sooner = made(FORMATS["AWS access key"], rng), made(FORMATS["GitLab personal token"], rng)
    assert find_secret(f"{sooner}\n{later}\n") == "gitlab pat on line 1"


@pytest.mark.parametrize(
    "unit",
    [
        "adobe",
        "curl -H ",
        "-----BEGIN PRIVATE KEY-----\n",
        "eyJ" * 5 + ".",
        "sk-",
        "AccountKey=",
        "s.",
        "x-: \n",
    ],
)
def test_the_time_grows_with_the_length_alone(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    find_secret(unit)  # the rules are loaded
    began = time.process_time()
    find_secret(text)
    assert time.process_time() - began < 3


def test_likely_secrets_are_replaced_by_their_kind():
    token = "ghp_" + "aZ3kQ9mX7vB2nL5tR8wY1pD4sF6gH0jKcVuE"
    text = f"é: use {token} or\n{token}, not ghp_short"
    found = without_secrets(text)
    assert found == "é: use [removed: github pat] or\n[removed: github pat], not ghp_short"
    assert find_secret(found) is None
    assert without_secrets("nothing \ud800 here") == "nothing \ud800 here"
