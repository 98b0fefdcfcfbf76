"""Short codes: a link's number written in base 62, shuffled so that neighbours do not look alike."""

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
MULTIPLIER = 387_420_489
MODULUS = 62**6
"""Codes have at most six characters; MULTIPLIER shares no factor with MODULUS, so no two links collide."""


def encode_id(link_id: int) -> str:
    """The short code of a link's number."""
    if not 0 < link_id < MODULUS:
        raise ValueError(f"a link's number lies between 1 and {MODULUS - 1}, not {link_id}")
    number = link_id * MULTIPLIER % MODULUS
    digits = []
    while number:
        number, digit = divmod(number, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))


def is_valid_code(code: str) -> bool:
    """Whether somebody may wish for this code: 3 to 32 letters, digits, dashes or underscores."""
    return 3 <= len(code) <= 32 and all(c in ALPHABET or c in "-_" for c in code)
