"""The answer, or the warning, for a question to which nothing, or nothing that fits well, was found.

"Not found" is a complete answer: no word of the question occurs, and no model is called. A warning is put
before an answer, whether a model wrote it or not.
"""

from __future__ import annotations

from collections.abc import Sequence

from rag.quoting import one_line
from rag.types import Answer, Confidence, Hit, MissingPart, Prepared, Subject, Usage

_NEAREST = 3
_MAX_WORDS = 8
_MAX_WORD_CHARS = 80
FOREIGN = (
    "The question seems not to be in English, as code mostly is. Ask in English, or with a language model: "
    "it puts the question into English before it is searched."
)
"""Part of a warning, or a note on an answer without one."""


def warning(
    confidence: Confidence | None, hits: Sequence[Hit], unread: str = "", *, is_part: bool = False
) -> str:
    """Return the warning before an answer that says what was not found; "" if not needed.

    `unread` says where the missing words are in files that are not indexed, if they are; `is_part` whether
    there are such files.
    """
    if confidence is None or confidence.is_sure or not confidence.found:
        return ""
    where = "these repositories" if len({hit.repo for hit in hits}) > 1 else "this repository"
    of_indexed = bool(unread or is_part)
    where = f"the indexed files of {where}" if of_indexed else where
    missing = _missing(confidence, f" in {where}")
    # What the question names may be there under another name, or it may be there and the answer is missing.
    if confidence.missing_part:
        said = f"Probably not in {where}. {missing}"
    elif confidence.absent:
        said = f"{missing} What you ask for may have another name."
    else:
        said = f"No place that fits well was found in {where}. {missing}".strip()
    return " ".join(filter(None, [said, _sentence(unread), FOREIGN if confidence.foreign else ""]))


def no_subject(document: Subject | None) -> str:
    """Return the answer, or the warning, for a question about an "it" that means no code yet.

    `document` is what the conversation was about, if it was about one.
    """
    if document is None:
        said = "It is not known what this question is about, as no earlier answer says what “it” means."
        return f"{said} Name it in the question, or set its subject (`about`)."
    place = one_line(f"{document.path}:{document.start}" if document.start else document.path)
    said = f"The conversation has shown no definition in code yet; it was about `{place}`"
    named = f", “{one_line(document.symbol)}”" if document.symbol else ""
    return f"{said}{named}. Name one in the question, or set its subject (`about`)."


def not_found(prepared: Prepared, unread: str = "") -> Answer:
    """Return what was searched, which words are missing, and the nearest places.

    `unread` says where the words are in files that are not indexed, if they are.

    The answer cites nothing, since nothing was shown; `hits` are the nearest places. `model` is "". To a
    question that is about nothing yet, the warning is the answer.
    """
    said = f"{prepared.warning}\n" if prepared.warning else ""
    return Answer(
        text=said or _text(prepared, prepared.confidence or Confidence(0.0, False), unread),
        warning=prepared.warning,
        question=prepared.question,
        standalone_question=prepared.standalone_question,
        subject=prepared.subject,
        hits=() if said else prepared.hits,
        usage=Usage(estimated=False, cost_usd=0.0),
        found=False,
        seconds=prepared.seconds,
        confidence=prepared.confidence,
        missing_words=prepared.confidence.missing_words if prepared.confidence else (),
    )


def _text(prepared: Prepared, confidence: Confidence, unread: str) -> str:
    repositories = list(dict.fromkeys(one_line(hit.repo) for hit in prepared.hits))
    where = repositories[0] if len(repositories) == 1 else "these repositories" if repositories else "there"
    where = f"the indexed files of {where}" if unread else where
    searched = _searched_words(confidence, " in them" if unread else "")
    parts = [f"Not found in {where}." if repositories else "Not found.", searched]
    parts.append(_sentence(unread))
    if prepared.hits:
        parts.append("Nearest, though probably not what was meant:\n\n" + _nearest(prepared.hits))
    if confidence.foreign:
        parts.append(FOREIGN)
    elif prepared.hits:
        parts.append("If it is there under another name, ask with the words that the code uses.")
    elif not any(parts[1:]):
        parts.append("The question names nothing that could be looked for; say what it is about.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _sentence(unread: str) -> str:
    return f"{unread[:1].upper()}{unread[1:]}." if unread else ""


def _searched_words(confidence: Confidence, where: str) -> str:
    if not confidence.sought:
        return ""
    return f"Looked for {_words(confidence.sought)}. {_missing(confidence, where)}".strip()


def _missing(confidence: Confidence, where: str) -> str:
    """Return which part or which words are missing, in sentences; `where` follows "occurs nowhere"."""
    if confidence.missing_part is not None:
        return _missing_part(confidence.missing_part)
    sentences = []
    if confidence.absent:
        verb = "occurs" if len(confidence.absent) == 1 else "occur"
        sentences.append(f"{_words(confidence.absent)} {verb} nowhere{where}.")
    if confidence.unmet:
        verb = "is" if len(confidence.unmet) == 1 else "are"
        sentences.append(f"{_words(confidence.unmet)} {verb} not in the nearest places.")
    return " ".join(sentences)


def _missing_part(part: MissingPart) -> str:
    """Return what is missing of what, and the nearest names."""
    name, of = f"`{one_line(part.name)}`", one_line(part.of)
    said = f"`{of}` has no {name}" if of else f"No {name} was found"
    nearest = f"; nearest: {', '.join(f'`{one_line(one)}`' for one in part.nearest)}" if part.nearest else ""
    return f"{said}{nearest}."


def _words(words: Sequence[str]) -> str:
    shown = [f"`{one_line(_cut(word))}`" for word in words[:_MAX_WORDS]]
    if len(words) > _MAX_WORDS:
        return ", ".join(shown) + " …"
    return " and ".join([", ".join(shown[:-1])] * (len(shown) > 1) + shown[-1:])


def _cut(word: str) -> str:
    return word if len(word) <= _MAX_WORD_CHARS else f"{word[:_MAX_WORD_CHARS]}…"


def _nearest(hits: Sequence[Hit]) -> str:
    """List the best hit of each of the first files."""
    several = len({(hit.repo, hit.location) for hit in hits}) > 1
    best: dict[tuple[str, str], Hit] = {}
    for hit in hits:
        best.setdefault((hit.location, hit.path), hit)
    return "\n".join(f"- {_place(hit, several=several)}" for hit in list(best.values())[:_NEAREST])


def _place(hit: Hit, *, several: bool) -> str:
    name = hit.label
    place = f"`{one_line(f'{hit.repo}:{hit.place}' if several else hit.place)}`"
    return f"{place}, {'in' if hit.unit == 'block' else hit.unit} `{one_line(name)}`" if name else place
