"""Charsets as mail names them, and no control characters in what it says."""

from base64 import b64encode

import pytest

from email_env.ingest.parse import parse_message
from email_env.ingest.text import codec_of, decode
from email_env.search.database import MailDatabase
from tests.email_env.mails import build


@pytest.mark.parametrize(
    ("labels", "codec"),
    [
        ("iso-8859-1 latin1 ISO_8859-1 windows-1252 cp1252 x-cp1252 cp819", "cp1252"),
        ("iso-8859-9 latin5 windows-1254", "cp1254"),
        ("gb2312 gbk x-gbk cp936 windows-936 gb18030", "gb18030"),
        ("euc-kr ks_c_5601-1987 korean windows-949", "cp949"),
        ("shift_jis sjis x-sjis ms_kanji", "cp932"),
        ("big5 x-big5 big5-hkscs", "big5hkscs"),
        ("iso-8859-8-i iso-8859-8 hebrew", "iso8859-8"),
        ("windows-874 tis-620 iso-8859-11", "cp874"),
        ("utf-7 unicode-1-1-utf-7", "utf-7"),
        ("x-mac-cyrillic", "mac-cyrillic"),
        ("iso-2022-jp", "iso2022_jp_ext"),
        ("us-ascii unicode_escape idna punycode rot13 base64 undefined unknown-8bit charmap", ""),
        ("a" * 1000, ""),
    ],
)
def test_charsets_are_what_mail_means_by_their_names(labels, codec):
    assert {label: codec_of(label) for label in labels.split()} == dict.fromkeys(labels.split(), codec)


@pytest.mark.parametrize(
    ("data", "charset", "text"),
    [
        (b"12 \x80 \x93now\x94 it\x92s", "iso-8859-1", "12 € “now” it’s"),
        (b"12 \x80", "us-ascii", "12 €"),
        ("12 €".encode(), "us-ascii", "12 €"),
        (b"\x93a\x81\x94", "iso-8859-1", "“a”"),
        (b"\x93\xfeey\x81\x94", "iso-8859-9", "“şey”"),
        ("회의록 똠방".encode("cp949"), "ks_c_5601-1987", "회의록 똠방"),
        ("①髙".encode("cp932"), "shift_jis", "①髙"),
        ("镕€".encode("gb18030"), "gb2312", "镕€"),
        (b"caf\x82", "ibm850", "café"),
        (b"caf+AOk-", "utf-7", "café"),
        (b"1 + 1", "utf-7", "1 + 1"),
        (b"a\x93b", "iso-8859-2", "ab"),
        ("a\x85\x9fb".encode(), "utf-8", "ab"),
        ("\ufeffHé".encode(), "utf-8", "Hé"),
        ("Über Jürgen".encode() + b"\xc3", "utf-8", "Über Jürgen"),
        ("Über Jürgen".encode() + b" \xff", "", "Über Jürgen "),
        (b"Caf\xe9 5\x80", "utf-8", "Café 5€"),
        ("预算五万".encode("gbk") + b"\xff", "gb2312", "预算五万"),
        ("会議の件".encode("iso2022_jp") + b"\x1b$B-!\x1b(B ok", "iso-2022-jp", "会議の件 ok"),
        (b"\x1b(I1234\x1b(B 1", "iso-2022-jp", "ｱｲｳｴ 1"),
        ("件".encode(), "iso-2022-jp", "件"),
    ],
)
def test_bytes_are_the_text_that_was_meant(data, charset, text):
    assert decode(data, charset) == text


@pytest.mark.parametrize(
    ("charset", "codec", "text"), [("ks_c_5601-1987", "cp949", "회의록"), ("iso-8859-1", "cp1252", "“€”")]
)
def test_body_subject_and_names_have_the_same_charsets(charset, codec, text):
    body = text.encode(codec)
    encoded = f"=?{charset}?B?{b64encode(body).decode()}?="
    headers = f"From: {encoded} <a@x.com>\nSubject: Re: {encoded}\nContent-Type: text/plain; charset={charset}\n\n"
    parsed = parse_message(headers.encode() + body)
    assert (parsed.from_name, parsed.subject, parsed.body) == (text, f"Re: {text}", text)


@pytest.mark.parametrize(
    ("declared", "named", "codec", "text"),
    [
        ("", "windows-1251", "cp1251", "Привет"),
        ("us-ascii", "koi8-r", "koi8-r", "Привет"),
        ("koi8-r", "windows-1251", "koi8-r", "Привет"),
        ("", "iso-2022-jp", "iso2022_jp", "会議"),
        ("", "utf-16", "utf-8", "Привет"),
        ("", "iso-8859-1", "utf-8", "Привет"),
        ("", "no-such-charset", "cp1252", "Café"),
    ],
)
def test_a_page_names_its_charset_where_the_mail_does_not(declared, named, codec, text):
    page = f"<meta http-equiv='Content-Type' content='text/html; charset={named}'><p>{text}</p>".encode(codec)
    parsed = parse_message(f"From: a@x.com\nContent-Type: text/html; charset={declared}\n\n".encode() + page)
    assert parsed.body == text


@pytest.mark.parametrize(
    ("charset", "codec", "subject"),
    [("gb2312", "gbk", "预算会议"), ("KOI8-R", "koi8-r", "Бюджет"), ("iso-2022-jp", "iso2022_jp", "会議"),
     ("iso-8859-1", "utf-8", "Ünï"), ("utf-16", "cp1252", "Über")],
)  # fmt: skip
def test_headers_that_are_not_encoded_have_the_charset_of_the_text(charset, codec, subject):
    headers = f"From: a@x.com\nSubject: {subject}\nContent-Type: text/plain; charset={charset}\n\n"
    assert parse_message(headers.encode(codec)).subject == subject


def test_what_nobody_sees_is_no_part_of_a_word(tmp_path):
    page = "<p>The bud&shy;get is &#8206;$5\u200b00&#8236;"
    headers = "From: a@x.com\nTo: b@x.com\nSubject: Our\u200b bud\u00adget\nContent-Type: text/html; charset=utf-8\n\n"
    parsed = parse_message((headers + page).encode())
    assert (parsed.subject, parsed.body) == ("Our budget", "The budget is $500")
    assert decode("\u202bمی\u200cخواهم\u202c".encode(), "utf-8") == "می\u200cخواهم"
    build(tmp_path / "mail.db", parsed)
    found = MailDatabase(tmp_path / "mail.db").search(inbox="b@x.com", keywords=["budget", "$500"], until="2030-01-01")
    assert [hit.subject for hit in found] == ["Our budget"]
