"""The text of bytes: marks, declarations, and guesses."""

from __future__ import annotations

import codecs
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.decoding import decode, decoded_lines, is_wide

TEXTS = {
    "zh": ("检查用户的访问令牌是否已经过期。如果过期则返回错误。", "gbk gb18030"),
    "zh, short": ("令牌检查说明", "gbk"),
    "zh-tw": ("檢查使用者的存取權杖是否已經過期。如果過期則傳回錯誤。", "big5"),
    "ja": (
        "認証の設定を確認してください。ユーザー名とパスワードが必要です。",
        "shift_jis cp932 euc_jp iso2022_jp",
    ),
    "ja, kana": ("サーバーに接続できません", "shift_jis euc_jp"),
    "ko": ("토큰이 만료되었는지 확인합니다. 만료된 경우 오류를 반환합니다.", "euc_kr cp949"),
    "ru": ("Проверяет, не истёк ли срок действия токена.", "koi8-r cp1251 cp866"),
    "ru, short": ("проверка токена", "koi8-r cp1251 cp866 iso8859-5"),
    "uk": ("Перевіряє, чи не закінчився термін дії токена. Повертає помилку.", "koi8-u cp1251"),
    "el": ("Ελέγχει αν το διακριτικό έχει λήξει και επιστρέφει σφάλμα", "cp1253"),
    "he": ("בודק אם פג תוקף האסימון ומחזיר שגיאה", "cp1255"),
    "ar": ("يتحقق مما إذا كانت صلاحية الرمز قد انتهت", "cp1256"),
    "th": ("ตรวจสอบว่าโทเค็นหมดอายุหรือไม่", "cp874"),
    "de": ("Prüft, ob das Token abgelaufen ist; gibt einen Fehler zurück. Größe, Übung", "cp1252"),
    "fr": ("Vérifie si le jeton a expiré et renvoie une erreur à l’appelant; déjà vu, où ça", "cp1252"),
    "es": ("Comprueba si el token ha caducado; señal, año, ¿qué?", "cp1252 latin-1"),
    "pt": ("Verifica se o token expirou; configuração não é válida, ações", "cp1252"),
    "sv": ("Kontrollerar om token har gått ut; åäö, för många försök", "cp1252"),
    "name": ("Copyright (C) 1998 by François Müller and José Núñez", "latin-1"),
    "signs": ("© 2001 Foo — 5 ± 3 µm, 30 °C", "cp1252"),
    "word": ("größe", "cp1252"),
    "wide": ("one line\nund größer\n令牌\n", "utf-16-le utf-16-be utf-32-le utf-32-be"),
}
UNDECLARED = [(name, encoding) for name, (_, encodings) in TEXTS.items() for encoding in encodings.split()]


def source(text: str) -> str:
    return f'#include <stdio.h>\n/* {text} */\nint main(void) {{\n  printf("{text}\\n");\n  return 0;\n}}\n'


@pytest.mark.parametrize("form", [str, source])
@pytest.mark.parametrize(("name", "encoding"), UNDECLARED)
def test_what_is_not_declared_is_guessed_and_said_to_be(name, encoding, form):
    text = form(TEXTS[name][0])
    found = decode(text.encode(encoding))
    assert (found.text, found.guessed) == (text, True)


@pytest.mark.parametrize(
    "declared",
    [
        "# -*- coding: {} -*-\n",
        "#!/usr/bin/ruby\n# encoding: {}\n",
        "#!/usr/bin/python\r# vim: set fileencoding={} :\r",
        '<?xml version="1.0" encoding="{}"?>\n',
        "<html><head><meta charset={}>\n",
        '<html><head><META http-equiv="Content-Type" content="text/html; charset={}">\n',
        '@charset "{}";\n',
        ";;; -*- mode: lisp; coding: {}-unix -*-\n",
    ],
)
@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("shift_jis", "令牌"), ("EUC-JP", "令牌"), ("gb2312", "令牌"), ("GBK", "是"), ("big5", "令牌"),
        ("koi8-r", "ТОКЕН"), ("windows-1251", "ключ"), ("cp866", "КЛЮЧ"), ("iso-8859-2", "źródło"),
        ("iso-8859-15", "10 €"), ("latin-1", "größe"), ("euc-kr", "키가 없습니다"), ("x-sjis", "令牌"),
        ("iso-2022-jp", "認証"),
    ],
)  # fmt: skip
def test_a_declaration_decides(declared, encoding, text):
    written = declared.format(encoding) + text + "\n"
    found = decode(written.encode(encoding.removeprefix("x-")))
    assert found.text == written.replace("\r", "\n")
    assert not found.guessed


def test_a_declaration_at_the_end_decides():
    text = "x = 1\n" * 2_000 + "# źródło\n# vim: fenc=iso-8859-2\n"
    assert decode(text.encode("iso-8859-2")) == (text, "iso8859_2", False)


@pytest.mark.parametrize(
    "name", "rot13 idna utf-7 hex base64 zlib punycode unicode_escape undefined mbcs x".split()
)
def test_only_encodings_of_text_are_obeyed(name):
    text = f"# coding: {name}\n# größe und +AGE- und \\x41\n"
    assert decode(text.encode("latin-1")) == (text, "cp1252", True)
    assert decode(text.encode()) == (text, "utf-8", False)
    assert decode(text.encode("latin-1"), lambda: name).text == text


def test_attributes_of_git_come_before_what_the_text_declares():
    content = "# coding: koi8-r\n令牌\n".encode("gbk")
    assert decode(content, lambda: "GBK") == ("# coding: koi8-r\n令牌\n", "gbk", False)
    assert decode("źródło\n".encode("utf-16-le"), lambda: "UTF-16LE") == ("źródło\n", "utf_16_le", False)


def test_a_wrong_declaration_is_not_obeyed():
    text = "# coding: utf-8\n# größe\n"
    assert decode(text.encode("latin-1")) == (text, "cp1252", True)
    assert decode("# coding: koi8-r\nü\n".encode()) == ("# coding: koi8-r\nü\n", "utf-8", False)


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_a_byte_order_mark_is_no_part_of_the_text(mark, encoding):
    text = "secrets/\r\nü 令\n"
    assert decode(mark + text.encode(encoding)) == (text, encoding, False)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_a_cr_alone_ends_a_line_where_nothing_else_does(encoding):
    assert decode("one\rtwo ü\r".encode(encoding)).text == "one\ntwo ü\n"
    assert decode("50 %\r100 %\nü\n".encode(encoding)).text == "50 %\r100 %\nü\n"


@pytest.mark.parametrize(
    "content",
    [b"a\0b", bytes(range(256)) * 4, b"\0" * 64, b"text\n" * 9_000 + b"\0", b"\x7fELF\2\1\1\0\0\0\1\0"],
)
def test_data_keeps_its_zeros(content):
    assert "\0" in decode(content).text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("pad", range(4))
def test_a_long_text_without_a_mark_is_known_by_its_beginning(encoding, pad):
    text = "y" * pad + ("x" * 8_191 + "😀\n") * 3
    assert decode(text.encode(encoding)) == (text, encoding, True)
    assert is_wide(text.encode(encoding)[: 1 << 16])
    assert not is_wide(b"a\0b")


def test_a_few_bad_bytes_do_not_change_the_encoding():
    text = "# 检查用户的访问令牌是否已经过期\n" * 20
    assert decode(text.encode() + b"# \xe6\xa3 cut\n").text == text + "# \ufffd cut\n"


@given(st.binary(max_size=200))
def test_every_text_in_utf_8_is_itself(content):
    found = decode(content)
    assert isinstance(found.text, str)
    assert (
        decode("ü".encode() + found.text.encode("utf-8", "replace")).encoding == "utf-8" or "\0" in found.text
    )


@pytest.mark.parametrize(
    "part", [b"\xb1", b"\xb1\xb1 ", b"\xe9a", b"\xff\n", b"<meta ", b"coding:", b"\xd0\x1b$B", b"vim: \xe9"]
)
def test_the_time_is_bounded(part):
    began = time.thread_time()
    decode(part * (4_000_000 // len(part)) + b"\xff")
    assert time.thread_time() - began < 2.0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_are_decoded_as_they_come(encoding, end):
    lines = ['{"id": 1}', '{"query": "größe 令牌 ਊ"}', ""]
    content = end.join([*lines, "last"]).encode(encoding)
    parts = [part + b"\n" for part in content.split(b"\n")[:-1]] + [content.split(b"\n")[-1]]
    assert [line.rstrip("\r") for line in decoded_lines(parts)] == [*lines, "last"]
