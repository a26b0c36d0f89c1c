import copy
import multiprocessing
import pickle

import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, create_shared_memory, read_from_shared_memory, write_to_shared_memory
from hypothesis import given
from hypothesis import strategies as st

from email_env.spaces import SharedTexts, TextSpace, ToolCallSpace
from email_env.tools.actions import parse_action
from judges.common.tool_calls import Call

UTF8 = st.text(st.characters(exclude_categories=["Cs"]))


def test_any_utf8_string_up_to_the_length_belongs_to_the_space():
    space = TextSpace(5)
    assert "" in space
    assert "ü€😀\n\x00" in space
    assert "123456" not in space
    assert "\ud800" not in space
    assert 5 not in space
    assert None not in space


def test_samples_of_the_action_space_are_valid_calls_of_all_three_tools():
    space = ToolCallSpace(1000, seed=0)
    samples = [space.sample() for _ in range(100)]
    assert all(sample in space for sample in samples)
    calls = [call for sample in samples for call in parse_action(sample).calls]
    assert len(calls) == 100
    assert all(isinstance(call, Call) for call in calls)
    assert {call.name for call in calls} == {"search_inbox", "read_email", "return_final_answer"}


def test_sampling_follows_the_seed():
    one, other = ToolCallSpace(1000, seed=3), ToolCallSpace(1000, seed=3)
    assert [one.sample() for _ in range(5)] == [other.sample() for _ in range(5)]
    assert TextSpace(3, seed=1).sample() in TextSpace(3)


def test_a_mask_is_refused_since_there_is_no_alphabet():
    with pytest.raises(ValueError, match="takes no mask"):
        TextSpace(5).sample(mask=(3, None))


def test_flattening_into_numbers_is_refused_by_name():
    with pytest.raises(NotImplementedError, match=r"TextSpace\(5\) cannot be flattened into numbers"):
        spaces.flatten_space(TextSpace(5))


def test_spaces_are_equal_by_kind_and_length():
    assert TextSpace(5) == TextSpace(5)
    assert TextSpace(5) != TextSpace(6)
    assert TextSpace(5) != ToolCallSpace(5)
    assert TextSpace(5) != spaces.Text(5)


def test_a_space_survives_pickling_and_batching_and_goes_on_sampling_the_same():
    space = ToolCallSpace(1000, seed=1)
    again = pickle.loads(pickle.dumps(space))
    assert again == space
    assert again.sample() == copy.deepcopy(space).sample() == space.sample()
    assert len(batch_space(space, 3).sample()) == 3


@given(st.lists(UTF8.map(lambda text: text[:20]), min_size=3, max_size=3), UTF8.map(lambda text: text[:20]))
def test_strings_come_back_from_shared_memory_as_they_were_written(texts, later):
    space = TextSpace(20)
    memory = create_shared_memory(space, 3, multiprocessing)
    view = read_from_shared_memory(space, memory, 3)
    assert tuple(view) == ("", "", "")
    for index, text in enumerate(texts):
        write_to_shared_memory(space, index, text, memory)
    kept = copy.deepcopy(view)
    assert kept == tuple(texts)
    write_to_shared_memory(space, 1, later, memory)
    assert isinstance(view, SharedTexts)
    assert list(view) == [texts[0], later, texts[2]]
    assert kept == tuple(texts)


def test_a_text_space_within_a_dict_space_survives_shared_memory():
    space = spaces.Dict({"text": TextSpace(10), "number": spaces.Discrete(3)})
    memory = create_shared_memory(space, 2, multiprocessing)
    view = read_from_shared_memory(space, memory, 2)
    write_to_shared_memory(space, 1, {"text": "zwölf", "number": 2}, memory)
    assert tuple(view["text"]) == ("", "zwölf")
