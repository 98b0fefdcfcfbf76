"""Decide when two questions mean the same, so that one answer serves both.

Vectors cannot decide it: "where is the token set?" and "… deleted?" are nearer to each other than most
paraphrases are (`make bench ONLY=answer_cache`). So rules parse a question, and the results must be equal,
word for word: what is asked (where, why, how many …), who does what to whom, the names, numbers, prepositions
and negations, each in its place.

    Where is the session cookie set?                  where | set session cookie
    can you show me where we set the session cookie   where | set session cookie
    Where is the session cookie not set?              where | not | set session cookie

Ignored are: polite phrases, articles, the voice ("is set by the server", "the server sets"), the form of the
verb that goes with it, the word for the program ("we", "it", its own name), and the difference between a few
words that always mean the same. Text that the rules cannot parse is kept as it is written, and then equals
only itself. Tense and aspect are part of the meaning (is, was, will, has been, is being), and so is number,
except that "a value" equals "values". Names are never normalised: words that the repository defines, that are
quoted, or that are used like a name ("Where is items defined?", "What does args do?", "the keys function").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache

from rag.answer_cache.lexicon import (
    ALIKE,
    ASKED_NOUNS,
    AUXILIARY,
    BE,
    BOUND_BY_NOT,
    CHINESE,
    CODE_NOUNS,
    DETERMINERS,
    DO,
    FRAMES,
    GET,
    HAN,
    HAVE,
    IRREGULAR,
    JOINTS,
    MADE_OF_NAMES,
    MANNER,
    MODAL,
    NAME_VERBS,
    NEUTRAL,
    NOT_ADVERBS,
    NOT_PLURAL,
    NUMBERS,
    PARTICIPLES,
    PARTICLES,
    POLITE_END,
    POLITE_START,
    RELATIONS,
    REPLACEMENTS,
    SILENT_E,
    SINGULAR,
    SIZES,
    TENSES,
    WH,
)
from rag.identifiers import CAMEL, NAME

_MAX_WORDS = 30
"""A longer question is compared as it is written: rules for one clause cannot parse a story."""

_MAX_CHARACTERS = 400
"""The same limit for text without blanks; the expressions may take quadratic time."""

_TOKEN = re.compile(
    r"(?<!`)`++(?P<span>[^`]+)`+"
    r"|\"(?P<quoted>[^\"]+)\""
    r"|(?P<mark>(?<!\S)[-,;:.?!()\[\]'\"](?!\S)|'[^\w\s']+')"
    r"|(?P<option>(?<!\S)--?[^\W\d_][\w-]*)"
    rf"|(?P<name>{NAME}(?:(?:\.|::|->|#|/){NAME})+(?:\(\))?"
    rf"|\w*(?:{CAMEL}|_)\w*(?:\(\))?|[^\W\d_]\w*\(\)|(?<!\w)\.[^\W\d_][\w.]*)"
    r"|(?P<number>(?:(?<!\w)[+-])?\d(?:[\w^%]|[.:,](?=\d))*)"
    r"|(?P<word>[^\W\d_]+(?:'[a-z]+)?)"
    r"|(?P<sign>[-!<>=:*&|.+/]{2,}|[^\s\w,;:.?!()'\"\[\]-])"
)
_FORM = "\v"
"""Marks a word that is a form of a verb; no word begins with it."""
_SHORT = re.compile("[^aeiou]*[aeiouy][^aeiouwxy]")
_LETTERS = re.compile(r"(?<!^)(?<![\w'])[A-HJ-Z](?![\w'])|(?<![\w'])[A-Z]{2,}(?![\w'])")
_CAPITAL = re.compile(r"(?<=[^\s,.:;!?] )[A-Z][a-z]+(?![\w'])")
_GRAMMAR = frozenset(BE | GET | DO | HAVE | MODAL.keys() | DETERMINERS | JOINTS | NEUTRAL | WH | {"not"})
_SENTENCES = re.compile(r"[.?!]\s+\w|\n[^\S\n]*\w")


IsSymbol = Callable[[str], bool]
"""Returns whether a word is the name of something that the repository defines."""


def _no_symbol(word: str) -> bool:
    return False


def meaning(question: str, subjects: Collection[str] = (), is_symbol: IsSymbol = _no_symbol) -> str:
    """Return a question's meaning as text: equal only for questions that one answer serves.

    Args:
        question: any text; with several sentences, or a long one, only equal words mean the same.
        subjects: names of the program asked about: "how does fastify parse" is "how do we parse".
        is_symbol: identifies the words that are names in the repository: they are compared as written.
    """
    text = unicodedata.normalize("NFKC", question).replace("\u2019", "'").replace("\u2018", "'").strip()
    text = POLITE_END.sub("", POLITE_START.sub("", text))
    plain = " ".join(text.split()).rstrip("?.! ")
    is_long = len(plain.split()) > _MAX_WORDS or len(text) > _MAX_CHARACTERS
    if is_long or _SENTENCES.search(text):
        return f'"{plain}"'
    if HAN.search(plain):
        plain = _chinese(plain)
    named = "|".join(re.escape(subject) for subject in subjects if subject)
    question_text = (
        re.sub(rf"(?<![\w`.\"/-])(?:{named})(?![\w`.\"/-])", "it", plain, flags=re.IGNORECASE)
        if named
        else plain
    )
    every = _words(question_text)
    words = _without_frame([word for word in every if word not in DETERMINERS])
    if not words:
        return f'"{plain.casefold()}"'
    determined = frozenset(word for n, word in enumerate(every[1:]) if every[n] in DETERMINERS)
    names = _names(question_text, is_symbol)
    return _Reading(names, _written(question_text) | names, determined, _indefinite(every)).read(words)


# ---------------------------------------------------------------- words


def _words(text: str) -> list[str]:
    """Return the words in lower case; names and quotes as they are written, after a mark.

    A capital letter within a sentence makes a name: `Get` and `get` may both be defined. So do capitals alone
    where the word would mean something else: GET, IF, type T.
    """
    found: list[str] = []
    titled = text.isupper() or len(_CAPITAL.findall(text)) > len(text.split()) / 2
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        token = match[kind]
        if kind == "word" and not titled and _is_name(text, match):
            found.append("`" + token)
        elif kind == "word":
            found += _expanded(token.lower())
        elif kind in ("span", "name", "option"):
            found.append("`" + token.strip().removesuffix("()").replace(" ", "\u00a0"))
        elif kind == "quoted":
            found.append('"' + token.replace(" ", "\u00a0"))
        else:
            found.append(REPLACEMENTS.get(token.lower(), token.lower()))
    return found


def _names(text: str, is_symbol: IsSymbol) -> dict[str, str]:
    """Return the words that the repository defines, by their normalised form. Grammar words are no names."""
    words = {match["word"] for match in _TOKEN.finditer(text) if match["word"]}
    return {word.lower(): word for word in sorted(words) if word.lower() not in _GRAMMAR and is_symbol(word)}


def _written(text: str) -> dict[str, str]:
    """Return words as they are written, by their normalised form; none where case is not informative."""
    words = [match["word"] for match in _TOKEN.finditer(text) if match["word"]]
    if text.isupper() or len(_CAPITAL.findall(text)) > len(text.split()) / 2:
        return {}
    return {word.lower(): word for word in words[1:]}


_MAX_NOUNS = 3


def _indefinite(words: Sequence[str]) -> frozenset[str]:
    """Return the nouns after "a" or "an": "a session token" asks the same as "session tokens"."""
    found = set()
    for start in (n + 1 for n, word in enumerate(words) if word in ("a", "an")):
        ends = (
            n
            for n in range(start + 1, min(start + _MAX_NOUNS, len(words)) + 1)
            if n == len(words)
            or words[n] in JOINTS | AUXILIARY | GET | DETERMINERS
            or _is_participle(words[n])
        )
        end = next(ends, None)
        if end is not None and (end == len(words) or words[end] not in DETERMINERS):
            found.add(words[end - 1])
    return frozenset(found)


def _is_name(text: str, word: re.Match[str]) -> bool:
    if _LETTERS.match(text, word.start()):
        return len(word[0]) == 1 or word[0].lower() in _GRAMMAR
    return bool(_CAPITAL.match(text, word.start()))


def _expanded(word: str) -> list[str]:
    """Expand the contractions of a word."""
    if word in REPLACEMENTS:
        return REPLACEMENTS[word].split()
    head, _, tail = word.partition("'")
    if tail == "t" and head.endswith("n"):
        return [head[:-1], "not"]
    if tail == "s" and head in WH:
        return [head, "is"]
    return [NUMBERS.get(head, head)]


def _without_frame(words: Sequence[str]) -> list[str]:
    """Return the question itself, without polite phrases around it."""
    line, before = " ".join(words), ""
    while line != before:
        before = line
        for pattern, put in FRAMES:
            line = pattern.sub(put, line, count=1)
    return line.split()


def _chinese(text: str) -> str:
    """Return a question without polite phrases, in one order of words where there are two."""
    for pattern, put in CHINESE:
        text = pattern.sub(put, text)
    return text


# ---------------------------------------------------------------- clauses


@dataclass(frozen=True)
class _Reading:
    """One question, parsed: `names` are its words that the repository defines, `written` the spelling of its
    words, `determined` the words after an article, `indefinite` the nouns after "a".
    """

    names: dict[str, str]
    written: dict[str, str]
    determined: frozenset[str]
    indefinite: frozenset[str]

    def read(self, words: Sequence[str]) -> str:
        """Return what is asked, the main clause as agent, verb, object, and the other parts unchanged."""
        by_whom = len(words) > 1 and words[0] == "by" and words[1] in ("which", "what")
        asks, rest = _asked(words[1:] if by_whom else words)
        if asks == "what" and len(rest) > 1 and rest[-1] in BE | DO and rest[0] not in AUXILIARY:
            rest = [rest[-1], *rest[:-1], *["do"] * (rest[-1] in DO)]  # "what the limits are", "what it does"
        main, others = _parts(_with_names(rest, self.determined))
        main, negated = _without_not(main)
        asks, main, head = _subject_asked(asks, main)
        if asks == "how" and main[1:2] == ["i"] and main[0] in ("do", "can", "could"):
            asks, main = "how to", main[2:]
        tenses = _tenses(main)
        if asks == "who" and words[0] in ("who", "what") and main and IRREGULAR.get(main[0]) == main[0]:
            tenses = ["past"]  # "who set it", not "who sets it"
        asked_noun = words[0] == "what" and bool(main) and _singular(main[0]) in ASKED_NOUNS
        has_noun = words[0] == "which" or asked_noun
        clause, others, by_nobody = _clause(asks, main, others, has_noun=has_noun)
        if by_whom:
            asks, clause, head = "who", [*head, *clause], []
        if asks == "who" and by_nobody and clause and _verb(clause[0].removeprefix(_FORM)) in _relations():
            asks = "where"
        clause, adverbs = _without_adverbs(clause, by_nobody=by_nobody)
        parts = [asks, *[self._stems(head)] * bool(head), *["not"] * negated, *tenses, self._stems(clause)]
        for joint, part in others:
            if part or joint != "from":
                parts.append(f"{joint} {self._stems(_subordinate(part))}")
        return " | ".join([*parts, *sorted(adverbs)])

    def _stems(self, words: Sequence[str]) -> str:
        return " ".join(map(self._stem, words))

    def _stem(self, word: str) -> str:
        """Return a word's normalised form: a verb without voice and person, a noun with its number."""
        bare = word.removeprefix(_FORM)
        if bare == "has":
            return "have"
        if bare in self.names:
            return "`" + self.names[bare]
        if bare[0] == "`":
            return "`" + self.written.get(bare[1:], bare[1:])
        if bare != word:
            return _alike().get(_verb(bare), _verb(bare))
        is_many = _is_plural(word)
        stem = _normal(_singular(word) if is_many else word)
        return _alike().get(stem, stem) + "*" * (is_many or word in self.indefinite)


def _asked(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the question word, and the rest; "whether" for a yes-or-no question, "" for no question."""
    first = words[0]
    if first == "how" and len(words) > 1 and words[1] in SIZES:
        return f"how {words[1]}", list(words[2:])
    if first in WH:
        return first, list(words[1:])
    return ("whether" if first in AUXILIARY else ""), list(words)


def _parts(words: Sequence[str]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return the main clause, and the other parts with the words that join them."""
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
    """Handle "which rules apply", which asks for the subject, and "which rules do we keep": which noun."""
    if asks not in ("who", "what", "which") and not asks.startswith("how "):
        return asks, main, []
    at = next((n for n, word in enumerate(main) if word in AUXILIARY), None)
    if at is None:
        names_first = asks == "what" and main[:1] and main[0][0] == "`"  # "what `sign` returns"
        return ("who" if asks in ("what", "which") and not names_first else asks), main, []
    return asks if asks == "what" and not at else asks.replace("what", "which"), main[at:], main[:at]


def _without_not(main: Sequence[str]) -> tuple[list[str], int]:
    """Return the main clause without its negations, and their number. "Not all" is kept."""
    after = [*main[1:], ""]
    negating = [n for n, word in enumerate(main) if word == "not" and after[n] not in BOUND_BY_NOT]
    return [word for n, word in enumerate(main) if n not in negating], len(negating)


def _tenses(main: Sequence[str]) -> list[str]:
    """Return what the auxiliaries express besides the agent: past, future, condition, aspect."""
    return sorted({TENSES[word] for word in main if word in TENSES})


def _with_names(words: Sequence[str], determined: Collection[str]) -> list[str]:
    """Return the words; those that are used like a name, without an article, are marked as names."""
    marked = list(words)

    def mark(n: int) -> None:
        if n < len(words) and words[n].isalpha() and words[n] not in _GRAMMAR and words[n] not in determined:
            marked[n] = "`" + words[n]

    after = [*words[1:], ""]
    for n, word in enumerate(words):
        if (
            after[n] in CODE_NOUNS
            and after[n] not in determined
            and (_is_plural(word) or word.endswith(("ed", "ing")))
        ):
            mark(n)
        if word in ("called", "named", "name"):
            mark(n + 1)
        if word in MADE_OF_NAMES and after[n] == "of" and (n + 3 == len(words) or words[n + 3] in JOINTS):
            mark(n + 2)
        if word == "between" and words[n + 2 : n + 3] == ["and"] and n + 4 == len(words):
            mark(n + 1)
            mark(n + 3)
    if len(words) == 2 and _verb(words[0]) in _relations():
        mark(1)
    if len(words) < 2 or words[0] not in AUXILIARY:
        return marked
    if words[0] in BE | DO and words[2:3] and _verb(words[2]) in _name_verbs():
        mark(1)
    if words[0] in SINGULAR:
        ends = (
            n for n, word in enumerate(words) if n > 1 and (word in JOINTS | {"of"} or _is_participle(word))
        )
        for n in (1, next(ends, len(words)) - 1) if words[0] in BE else (1,):
            if _is_plural(words[n]):
                mark(n)  # "is items": a plural would have "are"
    return marked


def _clause(
    asks: str, main: list[str], others: list[tuple[str, list[str]]], *, has_noun: bool
) -> tuple[list[str], list[tuple[str, list[str]]], bool]:
    """Return the main clause in one order, the remaining parts, and whether it has no agent."""
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
        return [*agent, *modal, f"{_FORM}{words[end - 1]}", *words[end:], *patient], others, not agent
    if auxiliary in BE:
        return ["be", *words], others, False
    nobody = bool(words) and words[0] in NEUTRAL and asks != "who" and len(words) > 1
    acting = words[1:] if nobody else words
    if at is None:
        acting = _with_verb(acting, first=0 if nobody or (asks == "who" and not has_noun) else 1)
    return [*modal, *acting], others, nobody or (asks == "who" and at is None)


def _with_verb(words: Sequence[str], *, first: int) -> list[str]:
    """Return the words of a clause without auxiliary, its verb marked: "who signs it", "how viper merges
    maps".

    `first` is the earliest position of the verb; with 0 the verb is there.
    """
    ends = 1 if not first else len(words)
    at = next((n for n, word in enumerate(words[:ends]) if n >= first and _is_plural(word)), None)
    return list(words) if at is None else [*words[:at], f"{_FORM}{words[at]}", *words[at + 1 :]]


def _agent(others: list[tuple[str, list[str]]]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return the agent, taken from the part after "by", and the other parts."""
    for n, (joint, part) in enumerate(others):
        if joint == "by" and part and part[0] not in MANNER and not part[0].endswith("ing"):
            return ([] if part[0] in NEUTRAL else part), [*others[:n], *others[n + 1 :]]
    return [], others


def _subordinate(words: Sequence[str]) -> list[str]:
    """Return the words of another part, without verbs that only ask."""
    present = BE - TENSES.keys()
    kept = [word for word in words if word not in ("do", "does")]
    return ["be" if word in present else word if word in TENSES else MODAL.get(word) or word for word in kept]


def _without_adverbs(clause: list[str], *, by_nobody: bool) -> tuple[list[str], list[str]]:
    """Return the clause, and the adverbs of its verb, whose position in the clause may vary.

    An adverb before a participle belongs to it ("automatically escaped names"), unless the verb comes first.
    """
    after = [*clause[1:], ""]
    loose = [
        n
        for n, word in enumerate(clause)
        if _is_adverb(word) and (not _is_participle(after[n].removeprefix(_FORM)) or (n == 0 and by_nobody))
    ]
    return [word for n, word in enumerate(clause) if n not in loose], [clause[n] for n in loose]


def _is_adverb(word: str) -> bool:
    return len(word) > 4 and word.endswith("ly") and word not in NOT_ADVERBS


def _is_participle(word: str) -> bool:
    return word in PARTICIPLES or (len(word) > 4 and word.endswith("ed") and word[-3] != "e")


# ---------------------------------------------------------------- stems


def _is_plural(word: str) -> bool:
    """Return whether a word may be a plural, or a verb of the third person."""
    return (
        len(word) > 3
        and word.isalpha()
        and word.isascii()
        and word.endswith("s")
        and not word.endswith(("ss", "us", "is"))
        and word not in NOT_PLURAL
    )


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "xes", "zes", "ches", "shes")) else word[:-1]


def _verb(word: str) -> str:
    """Return the root of a finite or passive verb form: "writes", "written" and "write" are one."""
    if word in IRREGULAR:
        return _normal(IRREGULAR[word])
    if _is_plural(word):
        return _normal(_singular(word))
    if word.endswith("ied") and len(word) > 4:
        return _normal(word[:-3] + "y")
    root = word.removesuffix("ed")
    if root != word and len(root) > 2 and re.search("[aeiouy]", root):
        # A short verb doubles its last letter; with a single one, the verb ends in "e".
        return _normal(root + "e" if _SHORT.fullmatch(root) else root)
    return _normal(word)


def _normal(word: str) -> str:
    """Return a word in one spelling, without the "e" and the doubled letter that only some forms have."""
    if len(word) < 4 or word in SILENT_E or not (word.isalpha() and word.isascii()):
        return word
    word = word.replace("isation", "ization").replace("ence", "ense")
    if word.endswith("ie"):
        return word[:-2] + "y"
    if word.endswith("e") and word[-2] != "e" and not _SHORT.fullmatch(word[:-1]):
        word = word[:-1]
    return word[:-1] if word[-1] == word[-2] and word[-1] not in "aeiou" else word


@cache
def _alike() -> dict[str, str]:
    return {_verb(word): _verb(group[0]) for group in ALIKE for word in group}


@cache
def _relations() -> frozenset[str]:
    return frozenset(map(_verb, RELATIONS))


@cache
def _name_verbs() -> frozenset[str]:
    return frozenset(map(_verb, NAME_VERBS))
