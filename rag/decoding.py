"""Decode the bytes of a file: sources, ignore files, settings, imports.

In this order: a byte order mark, the encoding that git's attributes declare, UTF-8, UTF-16 and UTF-32 without
a mark (by where their zero bytes are), the encoding that the text declares (Python, Ruby, Emacs, Vim, XML,
HTML, CSS), ISO-2022-JP; else the one of a few encodings in which the text looks most like a language. Only
encodings of text are ever used, whatever a file declares. Nothing is guessed for a file in UTF-8.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from encodings.aliases import aliases
from typing import NamedTuple

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ALLOWED = frozenset(
    """
    utf_8 utf_16 utf_16_le utf_16_be utf_32 utf_32_le utf_32_be latin_1 koi8_r koi8_t koi8_u kz1048
    ptcp154 gb2312 gbk gb18030 big5 big5hkscs shift_jis shift_jis_2004 shift_jisx0213 euc_jp euc_jis_2004
    euc_jisx0213 euc_kr johab tis_620 hp_roman8 mac_roman mac_cyrillic mac_greek mac_latin2 mac_iceland
    mac_turkish mac_croatian mac_romanian iso2022_jp iso2022_jp_1 iso2022_jp_2 iso2022_jp_2004 iso2022_jp_3
    iso2022_jp_ext iso2022_kr
    """.split()
) | {f"{kind}{n}" for kind in ("cp", "iso8859_") for n in range(1, 1362)}
"""Encodings that a file may declare: text only, and stateless but for ISO 2022 ("utf_7" hides ASCII)."""
_WIDER = {
    "shift_jis": "cp932", "gb2312": "gb18030", "gbk": "gb18030", "euc_kr": "cp949", "big5": "big5hkscs",
    "tis_620": "cp874",
}  # fmt: skip
"""What browsers and editors decode instead: the same with the characters that a vendor added."""

_WIDE_BYTES = 1 << 14
_ASCII = bytes(range(128))
_DECLARED_BYTES = 2_048
_CODING_LINE = re.compile(rb"coding[:=][ \t]*([\w.-]{1,40})")
_MODELINE = re.compile(
    rb"(?:\b(?:vim?|ex):.{0,200}?\b(?:fenc|fileencoding)=|-\*-.{0,200}?\bcoding:[ \t]*|^\W{0,9}coding:[ \t]*)"
    rb"([\w.-]{1,40})",
    re.MULTILINE,
)
_MARKUP = re.compile(
    rb"(?:<\?xml[^>]{0,200}?\bencoding[ \t]*=[ \t]*[\"']|<meta\b[^>]{0,200}?\bcharset[ \t]*=[ \t]*[\"']?"
    rb"|^@charset [\"'])([\w.:-]{1,40})",
    re.IGNORECASE,
)

_SHIFT = re.compile(rb"\x1b\$[@B()]")
"""What begins characters of two bytes in ISO 2022."""
_SAMPLE_BYTES, _SAMPLE_LINES = 1 << 18, 400
_MOST_REPLACED = 0.02
_LIKELY = 0.7
"""The least score of a guess other than Windows-1252."""
_RUN = re.compile(r"[^\x00-\x7f]+")
_COMMON_BYTES = {
    "cp949": (0xB0, 0xC8), "gb18030": (0xB0, 0xD7), "euc_jp": (0xB0, 0xCF), "cp932": (0x88, 0x97),
    "big5": (0xA4, 0xC6),
}  # fmt: skip
"""First bytes of the characters in daily use, which the standards of East Asia have apart from the others."""
_KANA = re.compile(r"[\u3041-\u30ff]")
_CYRILLIC = "а-яА-ЯёЁіїєґІЇЄҐ"
_SCRIPTS = {
    **dict.fromkeys(("koi8_r", "koi8_u", "cp1251", "cp866", "iso8859_5"), _CYRILLIC),
    "cp1255": "א-ת", "cp1253": "ά-ώΆ-Ώ", "cp1256": "\u0621-\u064a", "cp874": "ก-\u0e3aเ-\u0e4e",
}  # fmt: skip
_SCRIPT_WEIGHT = {"cp874": 0.85, "cp1256": 0.9}
"""Most bytes of other encodings are letters in Thai, and many in Arabic."""
_FREQUENT, _RARE = frozenset("оеаинтсрвлкмдпу"), frozenset("ъщшжфцэё")
_FINAL = frozenset("ךםןףץς")
"""Letters that only end a word."""
_PUNCTUATION = frozenset("№«»—–…“”„’©°·•\u00a0")


class Decoded(NamedTuple):
    """A text without byte order mark; `guessed` is True if nothing says that it is in this encoding.

    It keeps its line ends; but a text in which only CR ends a line, as on old Macs, has LF instead.
    """

    text: str
    encoding: str
    guessed: bool


def decode(content: bytes, attributes: Callable[[], str] | None = None) -> Decoded:
    """Return the text of these bytes; invalid ones are replaced. That of binary data has NUL characters.

    Args:
        content: all bytes of a file.
        attributes: called for a text without mark that is not UTF-8; returns the encoding that the attributes
            of git declare, "" for none.
    """
    text, encoding, guessed = _decoded(content, attributes)
    if text.find("\n", 0, len(text) - 1) < 0 and "\r" in text and not text.endswith("\r\n"):
        text = text.replace("\r", "\n")
    return Decoded(text, encoding, guessed)


def text_of(content: bytes) -> str:
    """Return the text of the bytes of a file that a user has written, such as settings."""
    return decode(content).text


def decoded_lines(parts: Iterable[bytes], *, errors: str = "strict") -> Iterator[str]:
    """Yield the lines of a text as its parts are read, each of which ends with LF; without line ends.

    It is in UTF-8, UTF-16 or UTF-32. Invalid UTF-8 raises UnicodeDecodeError unless `errors` is "replace".
    """
    decoder: codecs.IncrementalDecoder | None = None
    rest = ""
    for number, part in enumerate(parts):
        if number == 0 and b"\0" in part:
            name = next((name for mark, name in _MARKS if part.startswith(mark)), "")
            wide = name or _unmarked_wide(part[: len(part) & ~1]) or _unmarked_wide(part[: len(part) & ~3])
            decoder = codecs.getincrementaldecoder(wide)("replace") if wide else None
        if decoder is None:
            text = (part if number else part.removeprefix(codecs.BOM_UTF8)).decode("utf-8", errors)
            is_old_mac = number == 0 and not text.endswith("\n")
            yield from (text.replace("\r", "\n") if is_old_mac else text).removesuffix("\n").split("\n")
            continue
        *lines, rest = (rest + decoder.decode(part)).split("\n")
        yield from (line.removeprefix("\ufeff") for line in lines)
    if decoder is not None:
        yield rest + decoder.decode(b"", True)


def is_wide(content: bytes) -> bool:
    """Return whether bytes with zeros among them are UTF-16 or UTF-32, with a mark or without."""
    return content.startswith(tuple(mark for mark, _ in _MARKS)) or bool(_unmarked_wide(content))


def _decoded(content: bytes, attributes: Callable[[], str] | None) -> tuple[str, str, bool]:
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding, "replace"), encoding, False
    is_iso_2022 = b"\x1b$" in content and content.isascii() and _SHIFT.search(content) is not None
    if b"\0" not in content and not is_iso_2022:
        try:
            return content.decode(), "utf-8", False
        except UnicodeDecodeError:
            pass
    named = attributes() if attributes else ""
    for name in (named, *([] if b"\0" in content else _declared(content))):
        if (found := _as_declared(content, name)) is not None:
            return *found, False
    encoding = _unmarked_wide(content) or ("latin-1" if b"\0" in content else "")
    encoding = encoding or ("iso2022_jp" if is_iso_2022 else _likeliest(content))
    return _with_controls(content, encoding), encoding, True


def _with_controls(content: bytes, encoding: str) -> str:
    """Decode; the bytes that Windows-1252 lacks become the controls of Latin-1, as in browsers."""
    if encoding == "cp1252" and _fails(content, encoding):
        return content.decode("latin-1")
    return content.decode(encoding, "replace")


def _fails(content: bytes, encoding: str) -> bool:
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        return True
    return False


def _unmarked_wide(content: bytes) -> str:
    """Return the encoding of two or four bytes a character that all or the first bytes are in, or ""."""
    head = content if len(content) < _WIDE_BYTES else content[:_WIDE_BYTES]
    if b"\0" not in head or 4 * (head.count(b"\0") + len(head.translate(None, _ASCII))) < len(head):
        return ""  # a text of single bytes with a few zeros
    sixteen = ("utf-16-le", "utf-16-be")
    if head[::2].count(b"\0") > head[1::2].count(b"\0"):  # the high bytes of Latin letters
        sixteen = sixteen[::-1]
    for encoding in ("utf-32-le", "utf-32-be", *sixteen):
        try:
            text = codecs.getincrementaldecoder(encoding)().decode(head, len(head) == len(content))
        except UnicodeDecodeError:
            continue
        if all(one.isprintable() or one in "\t\n\r\f" for one in text):
            return encoding
    return ""


def _declared(content: bytes) -> list[str]:
    """Return the encodings that a text declares, in the ways of programs, editors and markup."""
    head, tail = content[:_DECLARED_BYTES], content[-_DECLARED_BYTES:]
    first_lines = b"\n".join(re.split(rb"\r\n?|\n", head, maxsplit=2)[:2])
    found = [_MARKUP.search(head), _CODING_LINE.search(first_lines)]
    found += [_MODELINE.search(part) for part in (head, tail)]
    return [one[1].decode("ascii", "replace") for one in found if one]


def _codec(name: str) -> str:
    """Return Python's name of an encoding of text; "" for any other word. No codec is loaded."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).removeprefix("x_")
    plain = re.sub(r"_(?:unix|dos|mac)$", "", plain)
    known = aliases.get(plain, plain)
    return known if known in _ALLOWED else ""


def _as_declared(content: bytes, name: str) -> tuple[str, str] | None:
    """Decode as declared, else in a wider encoding; None if more than a few of the bytes are not in it."""
    codec = _codec(name)
    if codec == "latin_1":
        return _with_controls(content, "cp1252"), "cp1252"
    for encoding, errors in ((codec, "strict"), (_WIDER.get(codec, codec), "replace")) if codec else ():
        try:
            text = content.decode(encoding, errors)
        except (UnicodeDecodeError, LookupError):
            continue
        is_replaced = text.count("\ufffd") > (0 if codec == "utf_8" else _MOST_REPLACED * len(text))
        if "\0" not in text and not is_replaced:
            return text, encoding
    return None


def _likeliest(content: bytes) -> str:
    """Return the encoding in which the lines that are not ASCII look most like a language."""
    lines = (line for line in content[:_SAMPLE_BYTES].split(b"\n") if not line.isascii())
    sample = b"\n".join(line[:400] for line, _ in zip(lines, range(_SAMPLE_LINES), strict=False))
    best, best_score = "cp1252", max(_latin_score(sample), _LIKELY)
    for encoding in ("utf-8", *_SCRIPTS, *_COMMON_BYTES):
        text = sample.decode(encoding, "replace")
        runs = list(_RUN.finditer(text))
        if encoding == "utf-8":
            score = 1 - 5 * text.count("\ufffd") / max(sum(len(run[0]) for run in runs), 1)
        elif encoding in _SCRIPTS:
            score = _script_score(runs, _SCRIPTS[encoding]) * _SCRIPT_WEIGHT.get(encoding, 1)
        else:
            score = _east_asian_score("".join(run[0] for run in runs), encoding)
        if score > best_score:
            best, best_score = encoding, score
    return best


def _around(run: re.Match[str]) -> str:
    """Return the characters directly before and after a run."""
    return run.string[max(run.start() - 1, 0) : run.start()] + run.string[run.end() : run.end() + 1]


def _latin_score(sample: bytes) -> float:
    """Return how likely the bytes are of Western Europe: single letters in words, single signs elsewhere."""
    good = total = 0.0
    for run in _RUN.finditer(sample.decode("latin-1")):
        size = len(run[0])
        total += size
        if size <= 2:
            good += size if size == 1 or any(map(str.isalpha, _around(run))) else size / 2
    return good / max(total, 1)


def _script_score(runs: list[re.Match[str]], letters: str) -> float:
    """Return the share of letters of one script that are where they can be in a word; 0 for a few letters."""
    is_letter = re.compile(f"[{letters}]").match
    good = total = 0.0
    for run in runs:
        word = run[0]
        has_capitals = len(word) > 1 and word.isupper()
        is_apart = not any(map(str.isalpha, _around(run)))
        for at, one in enumerate(word):
            if one in _PUNCTUATION:
                continue
            total += 1
            if not is_letter(one) or (one in _FINAL and word[at + 1 : at + 2].isalpha()):
                good -= one == "\ufffd"
            elif is_apart and (has_capitals or not (one.isupper() and at and word[at - 1].islower())):
                good += _weight(one.lower(), letters) * (0.93 if has_capitals else 1)
    return good / total if total > 2 else 0


def _weight(letter: str, letters: str) -> float:
    if letters is not _CYRILLIC or letter in _FREQUENT:
        return 1
    return 0.4 if letter in _RARE else 0.7


def _east_asian_score(text: str, encoding: str) -> float:
    """Return the share of characters in daily use. Kana count in Japanese only: other languages lack them."""
    low, high = _COMMON_BYTES[encoding]
    japanese = encoding in ("euc_jp", "cp932")
    good = total = 0.0
    second = b""
    for one in text:
        code = one.encode(encoding, "replace")
        if one == "\ufffd":
            good -= 2
        if len(code) == 2 and code[0] in (0x81, 0xA1, 0xA3) and not one.isalpha():
            continue  # punctuation and digits
        total += 1
        if _KANA.match(one):
            good += japanese
        elif len(code) == 2 and low <= code[0] <= high and (code[1] > 0xA0 or encoding in ("big5", "cp932")):
            good += 0.98 if japanese else 1
            second += code[1:]
    if encoding == "big5" and len(second) > 3 and min(second) > 0xA0:
        good *= 0.8  # 40 % of its characters have a smaller second byte
    return good / max(total, 1)
