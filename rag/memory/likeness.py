"""When two questions mean the same, so that one answer serves both.

Vectors do not tell: "where is the token set?" and "… deleted?" lie nearer to each other than most paraphrases
do (`make bench ONLY=answer_cache`). So a question is read by rules, and what is left must be equal, word for
word: what is asked (where, why, how many …), who does what to whom, the names, numbers, prepositions and
negations, each in its place.

    Where is the session cookie set?                  where | set session cookie
    can you show me where we set the session cookie   where | set session cookie
    Where is the session cookie not set?              where | not | set session cookie

Put aside are: frames of politeness, articles, number and tense, the voice ("is set by the server", "the
server sets"), who stands for the program ("we", "it", its own name), a few words that always mean the same.
What the rules do not understand stays as it is written, and then equals only itself.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from functools import cache

from rag.memory.wording import (
    ALIKE,
    AUXILIARY,
    BE,
    CHINESE,
    DETERMINERS,
    DO,
    FRAMES,
    GET,
    HAN,
    HAVE,
    IRREGULAR,
    JOINTS,
    MANNER,
    MODAL,
    NEUTRAL,
    NOT_ADVERBS,
    NUMBERS,
    PARTICIPLES,
    PARTICLES,
    RELATIONS,
    SAID,
    SIZES,
    WH,
)

_MOST_WORDS = 30
"""A longer question is compared as it is written: rules for one clause do not read a story."""

_MOST_CHARACTERS = 400
"""The same where no blanks stand between words; what matches may take the square of it."""

_TOKEN = re.compile(
    r"`+(?P<span>[^`]+)`+"
    r"|\"(?P<quoted>[^\"]+)\""
    r"|(?P<mark>(?<!\S)[-,;:.?!()\[\]'\"](?!\S)|'[^\w\s']+')"
    r"|(?P<option>(?<!\S)--?[A-Za-z][\w-]*)"
    r"|(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::|->|#|/)[A-Za-z_$][\w$]*)+(?:\(\))?"
    r"|\w*(?:[a-z0-9][A-Z]|_)\w*(?:\(\))?|[A-Za-z]\w*\(\)|(?<!\w)\.[A-Za-z][\w.]*)"
    r"|(?P<number>(?:(?<!\w)[+-])?\d(?:[\w^%]|[.:,](?=\d))*)"
    r"|(?P<word>[^\W\d_]+(?:'[a-z]+)?)"
    r"|(?P<sign>[-!<>=:*&|.+/]{2,}|[^\s\w,;:.?!()'\"\[\]-])"
)
_SHORT = re.compile("[^aeiou]*[aeiouy][^aeiouwxy]")
_LETTERS = re.compile(r"(?<!^)(?<![\w'])[A-HJ-Z](?![\w'])|(?<![\w'])[A-Z]{2,}(?![\w'])")
_CAPITAL = re.compile(r"(?<=[^\s,.:;!?] )[A-Z][a-z]+(?![\w'])")
_GRAMMAR = frozenset(BE | GET | DO | HAVE | MODAL.keys() | DETERMINERS | JOINTS | NEUTRAL | WH | {"not"})
_SENTENCES = re.compile(r"[.?!]\s+\w|\n\s*\w")


def meaning(question: str, subjects: Collection[str] = ()) -> str:
    """What a question means, as text: equal only for questions that one answer serves.

    Args:
        question: any text; where it is more than one sentence, or long, only the same words mean the same.
        subjects: what the program asked about is called: "how does fastify parse" is "how do we parse".
    """
    text = unicodedata.normalize("NFKC", question).replace("\u2019", "'").replace("\u2018", "'").strip()
    plain = " ".join(text.split()).rstrip("?.! ")
    is_long = len(plain.split()) > _MOST_WORDS or len(text) > _MOST_CHARACTERS
    if is_long or _SENTENCES.search(text):
        return f'"{plain}"'
    if HAN.search(plain):
        plain = _chinese(plain)
    named = "|".join(re.escape(subject) for subject in subjects if subject)
    said = (
        re.sub(rf"(?<![\w`.\"/-])(?:{named})(?![\w`.\"/-])", "it", plain, flags=re.IGNORECASE)
        if named
        else plain
    )
    words = _without_frame(_words(said))
    return _read(words) if words else f'"{plain.casefold()}"'


# ---------------------------------------------------------------- words


def _words(text: str) -> list[str]:
    """The words in lower case; names and quotes as they are written, behind a mark.

    A capital letter within a sentence makes a name: `Get` and `get` may both be defined. So do capitals
    alone where the word would mean something else: GET, IF, type T.
    """
    found: list[str] = []
    titled = text.isupper() or len(_CAPITAL.findall(text)) > len(text.split()) / 2
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        said = match[kind]
        if kind == "word" and not titled and _is_name(text, match):
            found.append("`" + said)
        elif kind == "word":
            found += _spelt(said.lower())
        elif kind in ("span", "name", "option"):
            found.append("`" + said.strip().removesuffix("()").replace(" ", "\u00a0"))
        elif kind == "quoted":
            found.append('"' + said.replace(" ", "\u00a0"))
        else:
            found.append(SAID.get(said.lower(), said.lower()))
    return [word for word in found if word not in DETERMINERS]


def _is_name(text: str, word: re.Match[str]) -> bool:
    if _LETTERS.match(text, word.start()):
        return len(word[0]) == 1 or word[0].lower() in _GRAMMAR
    return bool(_CAPITAL.match(text, word.start()))


def _spelt(word: str) -> list[str]:
    """A word without contractions."""
    if word in SAID:
        return SAID[word].split()
    head, _, tail = word.partition("'")
    if tail == "t" and head.endswith("n"):
        return [head[:-1], "not"]
    if tail == "s" and head in WH:
        return [head, "is"]
    return [NUMBERS.get(head, head)]


def _without_frame(words: Sequence[str]) -> list[str]:
    """The question itself, without what politeness puts around it."""
    line, before = " ".join(words), ""
    while line != before:
        before = line
        for pattern, put in FRAMES:
            line = pattern.sub(put, line, count=1)
    return line.split()


def _chinese(text: str) -> str:
    """A question as it would be put without politeness, in the one order where there are two."""
    for pattern, put in CHINESE:
        text = pattern.sub(put, text)
    return text


# ---------------------------------------------------------------- clauses


def _read(words: Sequence[str]) -> str:
    """What is asked, the main clause as agent, verb, object, and the other parts as they stand."""
    by_whom = len(words) > 1 and words[0] == "by" and words[1] in ("which", "what")
    asks, rest = _asked(words[1:] if by_whom else words)
    if asks == "what" and len(rest) > 1 and rest[-1] in BE | DO and rest[0] not in AUXILIARY:
        rest = [rest[-1], *rest[:-1], *["do"] * (rest[-1] in DO)]  # "what the limits are", "what it does"
    main, others = _parts(rest)
    negated = main.count("not")
    main = [word for word in main if word != "not"]
    asks, main, head = _subject_asked(asks, main)
    if asks == "how" and main[1:2] == ["i"] and main[0] in DO | MODAL.keys():
        asks, main = "how to", main[2:]
    clause, others, by_nobody = _clause(asks, main, others)
    if by_whom:
        asks, clause, head = "who", [*head, *clause], []
    if asks == "who" and by_nobody and clause and _stem(clause[0]) in _relations():
        asks = "where"
    clause, adverbs = _without_adverbs(clause, by_nobody=by_nobody)
    told = [asks, *[_stems(head)] * bool(head), *["not"] * negated, _stems(clause)]
    told += [f"{joint} {_stems(_subordinate(part))}" for joint, part in others if part or joint != "from"]
    return " | ".join([*told, *sorted(adverbs)])


def _asked(words: Sequence[str]) -> tuple[str, list[str]]:
    """The word that asks, and the rest; "whether" where only a yes or no is wanted, "" for no question."""
    first = words[0]
    if first == "how" and len(words) > 1 and words[1] in SIZES:
        return f"how {words[1]}", list(words[2:])
    if first in WH:
        return first, list(words[1:])
    return ("whether" if first in AUXILIARY else ""), list(words)


def _parts(words: Sequence[str]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """The main clause, and the parts behind it with the words that join them."""
    main: list[str] = []
    others: list[tuple[str, list[str]]] = []
    for n, word in enumerate(words):
        particle = word in PARTICLES and (n + 1 == len(words) or words[n + 1] in JOINTS)
        if word in JOINTS and not particle:
            others.append(("if" if word in ("when", "whenever") else word, []))
        else:
            (others[-1][1] if others else main).append(word)
    return main, others


def _subject_asked(asks: str, main: list[str]) -> tuple[str, list[str], list[str]]:
    """For "which rules apply": that the subject is asked for; for "which rules do we keep": which noun."""
    if asks not in ("who", "what", "which") and not asks.startswith("how "):
        return asks, main, []
    at = next((n for n, word in enumerate(main) if word in AUXILIARY), None)
    if at is None:
        names_first = asks == "what" and main[:1] and main[0][0] == "`"  # "what `sign` returns"
        return ("who" if asks in ("what", "which") and not names_first else asks), main, []
    return asks if asks == "what" and not at else asks.replace("what", "which"), main[at:], main[:at]


def _clause(
    asks: str, main: list[str], others: list[tuple[str, list[str]]]
) -> tuple[list[str], list[tuple[str, list[str]]], bool]:
    """The main clause in one order, what is left of the other parts, and whether nobody acts in it."""
    at = next((n for n, word in enumerate(main) if word in AUXILIARY), None)
    auxiliary = "" if at is None else main[at]
    words = main if at is None else [*main[:at], *main[at + 1 :]]
    passive = auxiliary in BE or any(word in BE or word in GET for word in words)
    end = len(words)
    while end and (words[end - 1] in PARTICLES or _is_adverb(words[end - 1])):
        end -= 1
    modal = [MODAL[auxiliary]] if MODAL.get(auxiliary) else []
    if passive and end and _is_participle(words[end - 1]):
        patient = [word for word in words[: end - 1] if word not in BE | GET]
        if not patient and auxiliary in BE and words[: end - 1] == ["get"]:
            patient = ["get"]  # "how is get implemented"
        agent, others = _agent(others)
        return [*agent, *modal, *words[end - 1 :], *patient], others, not agent
    if auxiliary in BE:
        return ["be", *words], others, False
    nobody = bool(words) and words[0] in NEUTRAL and asks != "who" and len(words) > 1
    acting = words[1:] if nobody else words
    return [*modal, *_without_have(acting)], others, nobody or (asks == "who" and at is None)


def _agent(others: list[tuple[str, list[str]]]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Who acts, taken from the part behind "by", and the other parts."""
    for n, (joint, part) in enumerate(others):
        if joint == "by" and part and part[0] not in MANNER and not part[0].endswith("ing"):
            return ([] if part[0] in NEUTRAL else part), [*others[:n], *others[n + 1 :]]
    return [], others


def _subordinate(words: Sequence[str]) -> list[str]:
    """The words of another part, its verbs without what only asks or dates."""
    kept = [word for word in words if word not in DO and MODAL.get(word, word)]
    return _without_have(["be" if word in BE else word for word in kept])


def _without_have(words: Sequence[str]) -> list[str]:
    """ "has failed" is "failed"; "has a limit" stays."""
    after = [*words[1:], ""]
    return [
        word
        for n, word in enumerate(words)
        if not (word in HAVE and (_is_participle(after[n]) or after[n] in BE))
    ]


def _without_adverbs(clause: list[str], *, by_nobody: bool) -> tuple[list[str], list[str]]:
    """The clause, and the adverbs of its verb, which may stand in several places of it.

    One before a participle belongs to that ("automatically escaped names"), unless the verb comes first.
    """
    after = [*clause[1:], ""]
    loose = [
        n
        for n, word in enumerate(clause)
        if _is_adverb(word) and (not _is_participle(after[n]) or (n == 0 and by_nobody))
    ]
    return [word for n, word in enumerate(clause) if n not in loose], [clause[n] for n in loose]


def _is_adverb(word: str) -> bool:
    return len(word) > 4 and word.endswith("ly") and word not in NOT_ADVERBS


def _is_participle(word: str) -> bool:
    return word in PARTICIPLES or (len(word) > 4 and word.endswith("ed") and word[-3] != "e")


# ---------------------------------------------------------------- stems


def _stems(words: Sequence[str]) -> str:
    return " ".join(map(_stem, words))


def _stem(word: str) -> str:
    """A word without number and tense: less than a search takes away, for a parser is not parsing."""
    stem = _bare(word)
    return _alike().get(stem, stem)


def _bare(word: str) -> str:
    word = IRREGULAR.get(word, word)
    if len(word) < 4 or not (word.isalpha() and word.isascii()):
        return word
    word = word.replace("isation", "ization").replace("ence", "ense")
    if word.endswith(("ies", "ied")):
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "zes", "ches", "shes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    else:
        root = word.removesuffix("ing" if word.endswith("ing") else "ed")
        if root != word and len(root) > 2 and re.search("[aeiouy]", root):
            # A short verb doubles its last letter; where it is single, the verb ends in "e".
            word = root + "e" if _SHORT.fullmatch(root) else root
    if word.endswith("ie"):
        return word[:-2] + "y"
    if word.endswith("e") and word[-2] != "e" and not _SHORT.fullmatch(word[:-1]):
        word = word[:-1]
    return word[:-1] if word[-1] == word[-2] and word[-1] not in "aeiou" else word


@cache
def _alike() -> dict[str, str]:
    return {_bare(word): _bare(group[0]) for group in ALIKE for word in group}


@cache
def _relations() -> frozenset[str]:
    return frozenset(map(_stem, RELATIONS))
