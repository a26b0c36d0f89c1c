"""Spaces as JSON schemas, JSON as actions, observations as text."""

import json

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils import seeding
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from grpo.envs.spaces import in_words, schema_of, to_action, to_json, to_text
from grpo.errors import EnvError

TURN = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, np.inf], np.float32))
ALNUM = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def number(low=None, high=None, kind="number"):
    bounds = {"minimum": low, "maximum": high}
    return {"type": kind, **{key: bound for key, bound in bounds.items() if bound is not None}}


def listed(count, **items):
    return {"type": "array", **items, "minItems": count, "maxItems": count}


def text(low, high, characters=None):
    allowed = {} if characters is None else {"pattern": f"^[{characters}]*$"}
    return {"type": "string", "minLength": low, "maxLength": high, **allowed}


@pytest.mark.parametrize(
    ("space", "schema", "words"),
    [
        (spaces.Discrete(4), number(0, 3, "integer"), "integer from 0 to 3"),
        (spaces.Discrete(3, start=-1), number(-1, 1, "integer"), "integer from -1 to 1"),
        (spaces.Box(-2, 2, (1,)), number(-2.0, 2.0), "number from -2.0 to 2.0"),
        (spaces.Box(0, 9, (), np.int32), number(0, 9, "integer"), "integer from 0 to 9"),
        (spaces.Box(-0.1, 0.1, (2,)), listed(2, items=number(-0.1, 0.1)), "list of 2, each number from -0.1 to 0.1"),
        (
            TURN,
            listed(2, prefixItems=[number(-1.0, 1.0), number(0.0)]),
            "list of number from -1.0 to 1.0, number from 0.0",
        ),
        (spaces.MultiBinary(3), listed(3, items=number(0, 1, "integer")), "list of 3, each integer from 0 to 1"),
        (
            spaces.MultiDiscrete([2, 5], start=[0, 3]),
            listed(2, prefixItems=[number(0, 1, "integer"), number(3, 7, "integer")]),
            "list of integer from 0 to 1, integer from 3 to 7",
        ),
        (spaces.Text(9), text(1, 9, ALNUM), f"text of 1 to 9 characters, each one of [{ALNUM}]"),
        (
            spaces.Text(4, min_length=4, charset="LRUD"),
            text(4, 4, "DLRU"),
            "text of 4 characters, each one of [DLRU]",
        ),
        (
            spaces.Text(1, min_length=0, charset="-a]"),
            text(0, 1, r"\-\]a"),
            r"text of at most 1 character, each one of [\-\]a]",
        ),
        (spaces.Text(9, charset="".join(map(chr, range(40, 900, 3)))), text(1, 9), "text of 1 to 9 characters"),
        (
            spaces.Dict({"go": spaces.Discrete(2), "say": spaces.Text(5, charset="ab")}),
            {
                "type": "object",
                "properties": {"go": number(0, 1, "integer"), "say": text(1, 5, "ab")},
                "required": ["go", "say"],
            },
            "object with go (integer from 0 to 1), say (text of 1 to 5 characters, each one of [ab])",
        ),
    ],
)
def test_a_space_as_schema_and_in_words(space, schema, words):
    assert schema_of(space) == schema
    assert in_words(schema_of(space)) == words
    assert json.loads(json.dumps(schema_of(space))) == schema


def test_lists_of_lists_are_kept_apart_in_words():
    words = in_words(schema_of(spaces.MultiDiscrete([[2, 3], [4, 5]])))
    first, second = (
        "(list of integer from 0 to 1, integer from 0 to 2)",
        "(list of integer from 0 to 3, integer from 0 to 4)",
    )
    assert words == f"list of {first}, {second}"


@pytest.mark.parametrize(
    ("space", "value", "action"),
    [
        (spaces.Discrete(4), 3, 3),
        (spaces.Discrete(4), "2", 2),
        (spaces.Discrete(4), 1.0, 1),
        (spaces.Box(-2, 2, (1,)), 0.5, np.array([0.5], np.float32)),
        (spaces.Box(-2, 2, (1,)), [-2], np.array([-2], np.float32)),
        (spaces.Box(-0.41887903, 0.41887903, (1,)), 0.418879, np.array([0.418879], np.float32)),
        (spaces.Box(-1, 1, (2, 1)), [[0.5], [1]], np.array([[0.5], [1]], np.float32)),
        (spaces.MultiBinary(2), [0, 1], np.array([0, 1], np.int8)),
        (spaces.Text(5), "left", "left"),
        (spaces.Box(-np.inf, np.inf, (1,), np.int64), 2**63 - 1, np.array([2**63 - 1])),
        (spaces.Box(0, np.inf, (2,), np.int64), [2**53 + 1, "7"], np.array([2**53 + 1, 7])),
    ],
)
def test_json_that_is_an_action(space, value, action):
    made = to_action(space, value)
    np.testing.assert_array_equal(made, action)
    assert space.contains(made)


@pytest.mark.parametrize(
    ("space", "value", "message"),
    [
        (spaces.Discrete(4), 4, "4 is outside 0 to 3"),
        (spaces.Discrete(4), -1, "-1 is outside 0 to 3"),
        (spaces.Discrete(4), 1.5, "expected an integer, got 1.5"),
        (spaces.Discrete(4), True, "expected an integer, got True"),
        (spaces.Discrete(4), None, "expected an integer, got None"),
        (spaces.Discrete(4), [1], "expected an integer"),
        (spaces.Discrete(4), "north", "expected an integer, got 'north'"),
        (spaces.Discrete(4), {"a": 1}, "expected an integer"),
        (spaces.Discrete(4), 10**400, "expected an integer"),
        (spaces.Box(-2, 2, (1,)), 2.5, "2.5 is outside -2 to 2"),
        (spaces.Box(-2, 2, (1,)), "nan", "expected numbers in a list of shape"),
        (TURN, [0, -1], r"-1 at \[1\] is outside 0 to inf"),
        (TURN, [0, [1]], "expected numbers in a list of shape"),
        (TURN, 0, "expected numbers in a list of shape"),
        (spaces.MultiDiscrete([2, 5]), [1, 5], r"5 at \[1\] is outside 0 to 4"),
        (spaces.Text(5), "a longer text", "text of 1 to 5"),
        (spaces.Tuple([spaces.Discrete(2)]), 1, "a list of 1 values"),
        (spaces.Dict({"go": spaces.Discrete(2)}), {"went": 1}, "an object with the keys go"),
        (spaces.Dict({0: spaces.Discrete(2), 10: spaces.Discrete(2)}), {"0": 1}, "an object with the keys 0, 10, got"),
        (spaces.Box(-np.inf, np.inf, (1,)), 1e39, r"\[1e\+39\] is outside the range of float32"),
        (spaces.Box(-np.inf, np.inf, (1,), np.int64), 2**63, f"{2**63} is outside -{2**63} to {2**63 - 1}"),
    ],
)
def test_json_that_is_no_action_says_what_was_expected(space, value, message):
    with pytest.raises(ValueError, match=message):
        to_action(space, value)


def test_keys_that_are_no_texts_are_written_as_texts():
    space = spaces.Dict({0: spaces.Discrete(2), (1, 2): spaces.Discrete(9), "a": spaces.Text(3)})
    assert list(schema_of(space)["properties"]) == ["0", "(1, 2)", "a"]
    action = {0: 1, (1, 2): 7, "a": "up"}
    assert to_json(space, action) == {"0": 1, "(1, 2)": 7, "a": "up"}
    assert to_action(space, {"0": 1, "(1, 2)": 7, "a": "up"}) == action


LEAF = st.one_of(
    st.builds(spaces.Discrete, st.integers(1, 9), start=st.integers(-5, 5)),
    st.builds(spaces.MultiDiscrete, st.lists(st.integers(1, 5), min_size=1, max_size=3)),
    st.builds(spaces.MultiBinary, st.integers(1, 4)),
    st.builds(spaces.Text, st.integers(1, 9)),
    st.builds(
        lambda shape, low, width, dtype: spaces.Box(dtype(low), dtype(low + width), shape, dtype),
        hnp.array_shapes(min_dims=0, max_dims=2, max_side=3),
        st.integers(-9, 9),
        st.integers(1, 9),
        st.sampled_from([np.float32, np.float64, np.int64, np.int8]),
    ),
)
SPACES = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple)
        | st.dictionaries(st.text("abc", min_size=1), inner, min_size=1, max_size=3).map(spaces.Dict)
    ),
    max_leaves=5,
)


@given(SPACES, st.integers(0, 2**32))
def test_an_action_written_as_json_is_read_back(space, seed):
    space.seed(seed)
    action = space.sample()
    read = to_action(space, json.loads(json.dumps(to_json(space, action))))
    assert space.contains(read)
    assert to_json(space, read) == to_json(space, action)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=1), inner, max_size=2),
    max_leaves=6,
)


@given(SPACES, JUNK)
def test_any_json_is_an_action_of_the_space_or_a_value_error(space, value):
    try:
        action = to_action(space, value)
    except ValueError:
        return
    assert space.contains(action)


CART = np.array([0.0273956, -0.00611216, 0.03585979, 0.01973689], np.float32)
NAMES = {0: "x", 1: "v"}


@pytest.mark.parametrize(
    ("observation", "names", "text"),
    [
        (np.int64(7), {}, "7"),
        (np.array(0.5), {}, "0.5"),
        (CART, {}, "0.0274, -0.006112, 0.03586, 0.01974"),
        (CART[:2], NAMES, "x 0.0274, v -0.006112"),
        (CART, NAMES, "0.0274, -0.006112, 0.03586, 0.01974"),
        ((13, 10, np.bool_(0)), {}, "13, 10, 0"),
        ((3, np.array([0.5])), NAMES, "x 3, v 0.5"),
        (np.array([[1, 0], [0, 2]]), {}, "1 0\n0 2"),
        (np.array([[[1, 0], [0, 1]], [[1, 1], [0, 0]]]), {}, "1 0\n0 1\n\n1 1\n0 0"),
        ({"pos": 3, "goal": "door"}, {}, "pos: 3\ngoal: door"),
        ({"image": np.arange(8, dtype=np.uint8).reshape(2, 2, 2), "to": "2"}, {}, "image:\n0,1 2,3\n4,5 6,7\nto: 2"),
        ({"map": np.eye(2, dtype=np.uint8), "to": "the door"}, {}, "map:\n1 0\n0 1\nto: the door"),
        ({"grid": np.eye(2, dtype=int), "hp": 7}, {}, "grid:\n1 0\n0 1\nhp: 7"),
        ((np.array([0.5, 1.0]), np.array([2.0, 3.0])), {}, "0: 0.5, 1\n1: 2, 3"),
        (({"x": 4}, {"x": 5, "y": 1}), {}, "0: x: 4\n1: x: 5\ny: 1"),
        ((), {}, "(nothing)"),
        ({"bag": {}}, {}, "bag: (nothing)"),
    ],
)
def test_an_observation_is_shown_by_what_it_is(observation, names, text):
    assert to_text(observation, names) == text


@given(st.integers(0, 2**32))
def test_whatever_a_space_holds_has_a_text(seed):
    part = spaces.OneOf([spaces.Tuple([spaces.Discrete(3), spaces.Text(4)]), spaces.MultiBinary(2)])
    space = spaces.Dict({"road": spaces.Graph(spaces.Discrete(5), spaces.Discrete(2)), "list": spaces.Sequence(part)})
    space.seed(seed)
    assert not any(word in to_text(space.sample()) for word in ("array", "GraphInstance", "dtype", "np."))


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (np.zeros((96, 96, 3), np.uint8), r"shows pictures \(uint8 of shape \(96, 96, 3\)\)"),
        ({"image": np.zeros((8, 8), np.uint8)}, "shows pictures"),
        ({"image": np.zeros((30, 30, 3), np.uint8), "mission": "go"}, "shows pictures"),
        ((np.zeros(600),), "an array of 600 numbers"),
    ],
)
def test_what_a_language_model_cannot_read_is_refused_with_what_to_do(observation, message):
    with pytest.raises(ValueError, match=f"{message}.*wrap the env"):
        to_text(observation)


@pytest.mark.parametrize("space", [spaces.Graph(spaces.Discrete(2), None), spaces.Box(-1, 1, (65,))])
def test_an_action_space_without_a_form_in_json_is_refused(space):
    with pytest.raises(EnvError, match="wrap the env so that"):
        schema_of(space)


def test_reading_a_space_leaves_its_generator_alone():
    space = spaces.Discrete(1000, seed=3)
    expected = int(seeding.np_random(3)[0].integers(1000))
    schema_of(space)
    to_action(space, 5)
    assert int(space.sample()) == expected
