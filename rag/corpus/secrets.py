"""Likely secrets in a text, by the marks that issuers put on their keys.

Only marks that hardly anything else carries are looked for, and values that are plainly made up
(`AKIAIOSFODNN7EXAMPLE`, a run of x) are passed over: a file that is left out for nothing is missed, too.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

_KEY_LINES = r"[\s\\nr\"'+,]*(?:[\w-]+: [^\n]*\s+)*(?:[A-Za-z0-9+/=]{40,}[\s\\nr\"'+,]+){2}"


@dataclass(frozen=True, slots=True)
class _Mark:
    name: str
    marker: str
    pattern: re.Pattern[str]
    value_bits: float = 3.0
    """The least entropy, in bits a character, of a value that is not made up."""


def _mark(name: str, marker: str, pattern: str, value_bits: float = 3.0) -> _Mark:
    return _Mark(name, marker, re.compile(pattern), value_bits)


_MARKS = (
    _mark(
        "private key",
        "PRIVATE KEY",
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----" + _KEY_LINES,
        0.0,
    ),
    _mark("AWS access key", "AKIA", r"(?<![A-Za-z0-9])(AKIA[A-Z2-7]{16})(?![A-Za-z0-9])"),
    _mark("AWS temporary key", "ASIA", r"(?<![A-Za-z0-9])(ASIA[A-Z2-7]{16})(?![A-Za-z0-9])"),
    _mark("GitHub token", "gh", r"(?<![A-Za-z0-9])(gh[pousr]_[A-Za-z0-9]{36,})(?![A-Za-z0-9])", 3.5),
    _mark("GitHub token", "github_pat_", r"(github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})", 3.5),
    _mark("GitLab token", "glpat-", r"(?<![A-Za-z0-9])(glpat-[A-Za-z0-9_-]{20,})", 3.3),
    _mark(
        "OpenAI key",
        "sk-",
        r"(?<![A-Za-z0-9_-])(sk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_]{20,}(?:[A-Za-z0-9_-]*))",
        3.9,
    ),
    _mark("Anthropic key", "sk-ant-", r"(?<![A-Za-z0-9_-])(sk-ant-[A-Za-z0-9_-]{40,})", 3.9),
    _mark("Stripe key", "k_live_", r"(?<![A-Za-z0-9])([sr]k_live_[A-Za-z0-9]{20,})", 3.5),
    _mark("Slack token", "xox", r"(?<![A-Za-z0-9])(xox[abeoprs]-[0-9A-Za-z-]{24,})", 3.3),
    _mark(
        "Slack webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/services/(T[A-Z0-9]{8,}/B[A-Z0-9]{8,}/[A-Za-z0-9]{20,})",
        3.5,
    ),
    _mark("Google API key", "AIza", r"(?<![A-Za-z0-9_-])(AIza[A-Za-z0-9_-]{35})(?![A-Za-z0-9_-])", 3.7),
    _mark("Google OAuth secret", "GOCSPX-", r"(GOCSPX-[A-Za-z0-9_-]{28})", 3.5),
    _mark("npm token", "npm_", r"(?<![A-Za-z0-9_])(npm_[A-Za-z0-9]{36})(?![A-Za-z0-9])", 3.7),
    _mark("npm token", "_authToken", r"(?m)^[^#;\n]*:_authToken\s*=\s*\"?([A-Za-z0-9_.=/+-]{16,})", 3.0),
    _mark("PyPI token", "pypi-AgE", r"(pypi-AgE[A-Za-z0-9_-]{50,})", 3.5),
    _mark("SendGrid key", "SG.", r"(?<![A-Za-z0-9])(SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})", 3.7),
    _mark("Hugging Face token", "hf_", r"(?<![A-Za-z0-9_])(hf_[A-Za-z]{34})(?![A-Za-z0-9])", 3.7),
    _mark(
        "JSON web token",
        "eyJ",
        r"(?i:api|auth|access|secret|bearer|token|jwt|service)[\w.-]{0,20}[\"']?\s*(?:[:=]|=>)\s*[\"']?"
        r"(eyJ[A-Za-z0-9_-]{15,}\.eyJ[A-Za-z0-9_-]{40,}\.[A-Za-z0-9_-]{40,})",
        4.0,
    ),
)
_MADE_UP = re.compile(
    r"(?i)example|fake|dummy|sample|placeholder|redacted|changeme|your[-_]?|insert|testing|secret_?key|my[-_]?(?:api|key|token)"
    r"|x{5}|(.)\1{4}|0123|1234|2345|3456|abcd|bcde|cdef|qwer|deadbeef|foobar"
)


def find_secret(text: str) -> str | None:
    """The kind and line of the first likely secret, "GitHub token on line 3"; None when there is none.

    The value itself is never told.
    """
    for mark in _MARKS:
        if mark.marker not in text:
            continue
        for match in mark.pattern.finditer(text):
            if mark.value_bits and _is_made_up(match[1], mark.value_bits):
                continue
            return f"{mark.name} on line {text.count(chr(10), 0, match.start()) + 1}"
    return None


def _is_made_up(value: str, least_bits: float) -> bool:
    return _MADE_UP.search(value) is not None or _entropy_bits(value) < least_bits


def _entropy_bits(value: str) -> float:
    """Shannon entropy of the characters, in bits a character."""
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())
