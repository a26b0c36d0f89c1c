"""Spaces as JSON schemas, JSON as actions, observations as text."""

import json
import re
import string

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils import seeding
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from grpo.envs.spaces import check_readable, in_words, schema_of, to_action, to_json, to_text
from grpo.errors import EnvError

TURN = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, np.inf], np.float32))


@pytest.mark.parametrize(
    ("space", "schema", "words"),
    [
        (spaces.Discrete(4), {"type": "integer", "minimum": 0, "maximum": 3}, "integer from 0 to 3"),
        (spaces.Discrete(3, start=-1), {"type": "integer", "minimum": -1, "maximum": 1}, "integer from -1 to 1"),
        (spaces.Box(-2, 2, (1,)), {"type": "number", "minimum": -2.0, "maximum": 2.0}, "number from -2.0 to 2.0"),
        (spaces.Box(0, 9, (), np.int32), {"type": "integer", "minimum": 0, "maximum": 9}, "integer from 0 to 9"),
        (
            spaces.Box(-0.1, 0.1, (2,)),
            {
                "type": "array",
                "items": {"type": "number", "minimum": -0.1, "maximum": 0.1},
                "minItems": 2,
                "maxItems": 2,
            },
            "list of 2, each number from -0.1 to 0.1",
        ),
        (
            TURN,
            {
                "type": "array",
                "prefixItems": [
                    {"type": "number", "minimum": -1.0, "maximum": 1.0},
                    {"type": "number", "minimum": 0.0},
                ],
                "minItems": 2,
                "maxItems": 2,
            },
            "list of number from -1.0 to 1.0, number from 0.0",
        ),
        (
            spaces.MultiBinary(3),
            {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 1}, "minItems": 3, "maxItems": 3},
            "list of 3, each integer from 0 to 1",
        ),
        (
            spaces.Text(9),
            {"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^[0-9A-Za-z]*$"},
            "text of 1 to 9 characters, each one of [0-9A-Za-z]",
        ),
        (
            spaces.Text(4, min_length=4, charset="LRUD"),
            {"type": "string", "minLength": 4, "maxLength": 4, "pattern": "^[DLRU]*$"},
            "text of 4 characters, each one of [DLRU]",
        ),
        (
            spaces.Text(1, min_length=0, charset="-a]"),
            {"type": "string", "minLength": 0, "maxLength": 1, "pattern": r"^[\-\]a]*$"},
            r"text of at most 1 character, each one of [\-\]a]",
        ),
        (
            spaces.Text(99, charset=string.printable),
            {"type": "string", "minLength": 1, "maxLength": 99, "pattern": r"^[\t-\r -~]*$"},
            r"text of 1 to 99 characters, each one of [\t-\r -~]",
        ),
        (
            spaces.Text(9, charset="".join(map(chr, range(40, 900, 3)))),
            {"type": "string", "minLength": 1, "maxLength": 9},
            "text of 1 to 9 characters",
        ),
        (spaces.Dict(), {"type": "object", "properties": {}, "required": []}, "empty object {}"),
        (spaces.Tuple([]), {"type": "array", "prefixItems": [], "minItems": 0, "maxItems": 0}, "empty list []"),
        (
            spaces.Dict({"go": spaces.Discrete(2), "say": spaces.Text(5)}),
            {
                "type": "object",
                "properties": {
                    "go": {"type": "integer", "minimum": 0, "maximum": 1},
                    "say": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[0-9A-Za-z]*$"},
                },
                "required": ["go", "say"],
            },
            "object with go (integer from 0 to 1), say (text of 1 to 5 characters, each one of [0-9A-Za-z])",
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
    assert in_words(schema_of(spaces.Box(0, 1, (0,)))) == "empty list []"


def test_the_multidiscrete_schema_has_each_range():
    schema = schema_of(spaces.MultiDiscrete([2, 5], start=[0, 3]))
    assert [(part["minimum"], part["maximum"]) for part in schema["prefixItems"]] == [(0, 1), (3, 7)]


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
        (spaces.Box(0, np.inf, (2,), np.int64), [2**53 + 1, "9007199254740993"], np.array([2**53 + 1, 2**53 + 1])),
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
        (spaces.Dict(), {"went": 1}, "expected an empty object {}"),
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


def test_observations_in_words():
    assert to_text(spaces.Discrete(9), np.int64(7)) == "7"
    cart = np.array([0.0273956, -0.00611216, 0.03585979, 0.01973689], np.float32)
    assert to_text(spaces.Box(-5, 5, (4,)), cart) == "0.0274, -0.006112, 0.03586, 0.01974"
    names = {0: "x", 1: "v"}
    assert to_text(spaces.Box(-5, 5, (2,)), cart[:2], names) == "x 0.0274, v -0.006112"
    assert to_text(spaces.Box(-5, 5, (4,)), cart, names) == "0.0274, -0.006112, 0.03586, 0.01974"
    hand = spaces.Tuple([spaces.Discrete(32), spaces.Discrete(11), spaces.Discrete(2)])
    assert to_text(hand, (13, 10, 0)) == "13, 10, 0"
    grid = np.array([[1, 0], [0, 2]])
    assert to_text(spaces.Box(0, 9, (2, 2), np.int64), grid) == "1 0\n0 2"
    both = spaces.Dict({"pos": spaces.Discrete(9), "goal": spaces.Text(9)})
    assert to_text(both, {"pos": 3, "goal": "door"}) == "goal: door\npos: 3"


NUMBERS = spaces.Box(-9, 9, (2,))
ROAD = spaces.GraphInstance(
    nodes=np.array([[1, 2], [3, 4], [5, 6]], np.float32), edges=np.array([0, 1]), edge_links=np.array([[0, 1], [1, 2]])
)


@pytest.mark.parametrize(
    ("space", "observation", "text"),
    [
        (spaces.Sequence(spaces.Discrete(9)), (3, 1), "3, 1"),
        (spaces.Sequence(spaces.Box(0, 1, (1,))), (np.array([0.5]), np.array([0.25])), "0.5, 0.25"),
        (spaces.Sequence(NUMBERS), (np.array([0.5, 1.0]), np.array([2.0, 3.0])), "0: 0.5, 1\n1: 2, 3"),
        (spaces.Sequence(NUMBERS, stack=True), np.array([[0.5, 1.0], [2.0, 3.0]]), "0: 0.5, 1\n1: 2, 3"),
        (spaces.Sequence(NUMBERS), (), "(none)"),
        (
            spaces.Sequence(spaces.Dict({"x": spaces.Discrete(9)}), stack=True),
            {"x": np.array([4, 5])},
            "0: x: 4\n1: x: 5",
        ),
        (spaces.OneOf([spaces.Discrete(3), NUMBERS]), (1, np.array([0.5, 1.0])), "choice 1: 0.5, 1"),
        (spaces.OneOf([spaces.Discrete(3), NUMBERS]), (np.int64(0), np.int64(2)), "choice 0: 2"),
        (
            spaces.Graph(NUMBERS, spaces.Discrete(2)),
            ROAD,
            "node 0: 1, 2\nnode 1: 3, 4\nnode 2: 5, 6\nedge 0 -> 1: 0\nedge 1 -> 2: 1",
        ),
        (
            spaces.Graph(NUMBERS, None),
            spaces.GraphInstance(ROAD.nodes[:1], None, None),
            "node 0: 1, 2",
        ),
        (spaces.Dict(), {}, "(nothing)"),
        (spaces.Tuple([]), (), "(nothing)"),
        (spaces.Dict({"bag": spaces.Dict()}), {"bag": {}}, "bag: (nothing)"),
        (
            spaces.Dict({"grid": spaces.MultiDiscrete([[2, 2], [2, 2]]), "hp": spaces.Discrete(9)}),
            {"grid": np.eye(2, dtype=int), "hp": 7},
            "grid:\n1 0\n0 1\nhp: 7",
        ),
        (spaces.MultiBinary((2, 2, 2)), np.array([[[1, 0], [0, 1]], [[1, 1], [0, 0]]]), "1 0\n0 1\n\n1 1\n0 0"),
        (spaces.Discrete(3), {"a": 1, "b": [2.5, ("x", True)]}, "a: 1\nb: 2.5, (x, 1)"),
    ],
)
def test_observations_of_odd_spaces_are_no_python(space, observation, text):
    assert to_text(space, observation) == text


@given(st.integers(0, 2**32))
def test_whatever_a_graph_or_a_sequence_holds_has_a_text(seed):
    inner = spaces.OneOf([spaces.Tuple([spaces.Discrete(3), spaces.Text(4)]), spaces.MultiBinary(2)])
    for space in (
        spaces.Sequence(inner),
        spaces.Sequence(spaces.Tuple([NUMBERS, spaces.Discrete(2)]), stack=True),
        spaces.Graph(NUMBERS, NUMBERS),
        spaces.Graph(spaces.Discrete(5), None),
        spaces.Dict({"road": spaces.Graph(spaces.Discrete(5), spaces.Discrete(2)), "list": spaces.Sequence(NUMBERS)}),
    ):
        space.seed(seed)
        text = to_text(space, space.sample())
        assert not re.search(r"array|GraphInstance|dtype|np\.", text)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Sequence(spaces.Box(0, 255, (9, 9, 3), np.uint8)), "shows pictures"),
        (spaces.Graph(spaces.Box(-1, 1, (600,)), None), "an array of 600 numbers"),
        (spaces.Box(0, 255, (96, 96, 3), np.uint8), r"E-v0 shows pictures \(uint8 of shape \(96, 96, 3\)\)"),
        (spaces.Dict({"image": spaces.Box(0, 255, (8, 8), np.uint8)}), "shows pictures"),
        (spaces.Tuple([spaces.Box(-1, 1, (600,))]), "an array of 600 numbers"),
    ],
)
def test_what_a_language_model_cannot_read_is_refused_with_what_to_do(space, message):
    with pytest.raises(EnvError, match=message) as refusal:
        check_readable(space, "E-v0")
    assert "wrap the env" in str(refusal.value)


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
