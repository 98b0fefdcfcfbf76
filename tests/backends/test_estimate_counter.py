"""The estimate, run by run over bytes, is the estimate that patterns over characters give."""

import re

from hypothesis import given
from hypothesis import strategies as st

from rag.backends.tiktoken_counter import EstimateCounter

ALPHABET = "aabbzABZ0123 ..;;~é漢\N{GRINNING FACE}\t\n\r\x0b\x0c\x00\x7f\ud800"
TEXTS = st.text(st.sampled_from(ALPHABET), max_size=40)


def by_patterns(text):
    counts = [
        sum((len(w) + 3) // 4 for w in re.findall(r"[A-Z]?[a-z]+", text)),
        sum((len(c) + 1) // 2 for c in re.findall(r"[A-Z]{2,}|[A-Z](?![a-z])", text)),
        sum((len(d) + 2) // 3 + (d[0] == " ") for d in re.findall(r" ?[0-9]+", text)),
        sum((len(s) + 7) // 8 for s in re.findall(r" {2,}|[\t\n\r\x0b\x0c]+", text)),
        sum((len(m[0]) + 3) // 4 for m in re.finditer(r"([!-/:-@\[-`{-~])\1*", text)),
        sum(len(o.encode("utf-8", "surrogatepass")) for o in re.findall(r"[^\t\n\r\x0b\x0c -~]+", text)),
    ]
    return sum(counts) + (1 if text else 0)


@given(TEXTS)
def test_runs_of_bytes_count_as_patterns_do(text):
    assert EstimateCounter().count(text) == by_patterns(text)
