"""The estimate of tokens: above real tokenizers, never above the bytes, as counted by hand."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.llm.client import load_litellm
from judges.llm.prompt_text import count_tokens

TEXTS = {
    "mail": "From: steve.whitley@enron.com\nSubject: NERC letter\n\nJoe,\n\nTVA will implement the letter by Monday (12/13/1999), "
    "see http://www.nerc.com/~filez/letter.html. Call me at 713-853-1234.\n\n-----Original Message-----\n" * 3,
    "json": json.dumps([{"message_id": "<18156447.1075846144018.JavaMail.evans@thyme>", "from": "a@b.com"}] * 5),
    "code": "def f(x):\n    return [self._cache[k] for k, v in x.items() if v is not None]\n" * 5,
    "capitals": "TVA WILL IMPLEMENT THE NERC LETTER BY MONDAY\n" * 5,
    "german": "Die Überweisung für die Beschäftigten wurde gestern geprüft und großzügig bestätigt. " * 5,
    "russian": "Совещание состоится в понедельник в десять часов утра. " * 5,
    "chinese": "会议将于下周一上午十点在三楼会议室举行，请准时参加。" * 5,
    "base64": "aGVsbG8gd29ybGQgMTIzNDU2Nzg5MCBRV0VSVFlVSU9QQVNERkdISktMWlhDVkJOTQ" * 5,
    "escapes": '\\u003c\\n\\"' * 50,
    "emoji": "🙂🚀👍🏽" * 20,
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("model", ["gpt-4", "claude-2"])
def test_the_estimate_is_above_real_tokenizers(kind, model):
    """Both tokenizers come with litellm: nothing is downloaded."""
    exact = load_litellm().token_counter(model=model, text=TEXTS[kind])
    estimate = count_tokens(TEXTS[kind])
    assert exact <= estimate <= len(TEXTS[kind].encode())
    assert estimate <= 3.2 * exact


@given(st.text())
def test_the_estimate_is_never_above_the_bytes_and_adds_up(text):
    assert count_tokens(text) <= len(text.encode("utf-8", "surrogatepass"))
    assert 0 <= 2 * count_tokens(text) + 1 - count_tokens(text + "\n" + text) <= 1  # rounded up once instead of twice


def test_the_estimate_of_a_text_is_as_counted_by_hand():
    # words 1 + 8/4 and 1 + 2/4 (the sum rounded up), capitals T V A, the blank before a word nothing, full stop 1
    assert count_tokens("implement TVA now.") == 2 + 3 + 3 + 1
    assert count_tokens("12/13\n    x") == 5 + 1 + 2 + 1
    assert count_tokens("ü") == count_tokens("会") == 2
    assert count_tokens("д") == 1
    assert count_tokens("🙂") == 4
    assert count_tokens("") == 0
