import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from email_env.cache import demo_database
from email_env.env import EmailSearchEnv
from email_env.policies.experts import TutorPolicy
from email_env.policies.policy import hit_ids
from email_env.policies.words import answer_span, content_words, telling_words
from email_env.tools.ids import short_id
from tests.email_env.mails import mail, question
from tests.email_env.office import BUDGET, CITY, MOVED, NOWHERE, answer, episode, read, search


def test_the_oracle_follows_the_plan_and_is_right(path):
    env = EmailSearchEnv(path)
    actions, metrics = episode(env, "oracle", "moved")
    assert actions == [
        search("falcon", "review"),
        read("m2"),
        search("moved"),
        read("m3"),
        answer("Thursday", "m2", "m3"),
    ]
    assert metrics["success"] == metrics["found"] == metrics["read"] == 1.0
    actions, metrics = episode(env, "oracle", "nowhere")
    assert actions == [search("falcon", "party"), answer("I don't know")]
    assert metrics["success"] == metrics["dont_know"] == 1.0


def test_the_oracle_without_a_plan_finds_the_evidence_by_its_subject(path):
    bare = [replace(s, plan=(), split="train") for s in (BUDGET, MOVED, NOWHERE, CITY)]
    env = EmailSearchEnv(path, scenarios=bare)
    for scenario in bare:
        actions, metrics = episode(env, "oracle", scenario.scenario_id)
        assert metrics["success"] == 1.0
        assert metrics["found"] == metrics["read"] == (1.0 if scenario.message_ids else 0.0)
        assert len(actions) == max(2, 2 * len(scenario.message_ids) + 1)


def test_the_oracle_answers_in_time_when_turns_are_few(path):
    actions, metrics = episode(EmailSearchEnv(path, max_turns=2), "oracle", "moved")
    assert actions == [search("falcon", "review"), answer("Thursday", "m2", "m3")]
    assert metrics["success"] == 1.0


WORDS = [
    "not",
    "find",
    "I don't know",
    "no record",
    "n/a",
    "the",
    "Anna",
    "$4.2",
    "</tool_call>",
    "{",
    "}",
    "[",
    '"',
    "</think>",
    "\n",
    ".",
    "-",
    "ü",
    "x" * 700,
]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example("I could not find any record of it.")
@example("He did not find the contract; no mail says who signed. " * 60)
@example("I don't know")
@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=8), min_size=1).map(lambda words: " ".join(words).strip()))
def test_the_oracle_is_right_whatever_the_reference_says_and_however_long_it_is(path, text):
    """References of LLM-written questions are whole paragraphs, and some say themselves that something was not found."""
    scenario = replace(BUDGET, answer=text or "x", accepted=())
    env = EmailSearchEnv(path, scenarios=[scenario])
    _, metrics = episode(env, "oracle", "budget")
    assert (metrics["success"], metrics["undecided"], metrics["dont_know"]) == (1.0, 0.0, 0.0)
    env.close()


def test_a_policy_can_play_one_episode_after_another(path):
    env = EmailSearchEnv(path)
    policy = env.scripted_policies["oracle"](env, seed=0)
    for scenario_id in ("budget", "moved"):
        observation, info = env.reset(options={"scenario_id": scenario_id})
        assert policy.act(observation, info).startswith("<tool_call>")


def test_the_keyword_baseline_drops_words_until_something_is_found(path):
    actions, metrics = episode(EmailSearchEnv(path), "keyword", "budget")
    assert actions == [
        search("approved", "budget", "Falcon"),
        read("m1"),
        answer("$48,250", "m1"),
    ]
    assert metrics["success"] == 1.0
    zebra = [replace(BUDGET, question="Is the zebra at the Falcon?")]
    strict = EmailSearchEnv(path, scenarios=zebra, fallback_any=False)
    assert episode(strict, "keyword")[0][:2] == [search("zebra", "Falcon"), search("Falcon")]
    assert episode(EmailSearchEnv(path, scenarios=zebra), "keyword")[0][:2] == [search("zebra", "Falcon"), read("m2")]


def test_the_verbatim_baseline_searches_for_the_question_as_it_stands(path):
    actions, metrics = episode(EmailSearchEnv(path), "verbatim", "budget")
    assert actions == [search(BUDGET.question), read("m1"), answer("$48,250", "m1")]
    assert metrics["success"] == 1.0
    strict = EmailSearchEnv(path, scenarios=[BUDGET], fallback_any=False)
    assert episode(strict, "verbatim")[0] == [search(BUDGET.question), answer("I don't know")]


@pytest.mark.parametrize("name", ["bm25", "keyword", "verbatim", "tutor"])
def test_scripts_answer_from_the_mail_where_the_question_stands_again_below_it(path, name):
    asked = [replace(BUDGET, question="What did Finance say about the Falcon?")]  # no form: the nearest sentence
    plain, repeated = (EmailSearchEnv(path, scenarios=asked, repeat_question=again) for again in (False, True))
    assert episode(repeated, name) == episode(plain, name)
    repeated.reset()
    mail = repeated.step(read("m1"))[0]
    assert mail.endswith("\n\nQuestion: What did Finance say about the Falcon?")
    plain.reset()
    assert mail.startswith(plain.step(read("m1"))[0])


def test_the_keyword_baseline_says_so_where_nothing_is_found(path):
    env = EmailSearchEnv(path, scenarios=[replace(NOWHERE, question="Who feeds the zebra?")])
    actions, metrics = episode(env, "keyword")
    assert actions == [search("feeds", "zebra"), search("feeds"), answer("I don't know")]
    assert metrics["success"] == 1.0


@pytest.mark.parametrize("name", ["bm25", "keyword", "tutor"])
def test_a_chinese_question_finds_its_mail(built, name):
    others = [mail(f"m{week}", f"周报{week}", f"第{week}周的工作报告已经完成。") for week in range(2, 9)]
    database = built(mail("m1", "预算", "大家好！项目测试预算是五万元。谢谢。"), *others)
    asked = question(question="项目测试预算是多少？", answer="项目测试预算是五万元。")
    env = EmailSearchEnv(database.path, scenarios=[asked])
    actions, metrics = episode(env, name)
    assert read("m1") in actions
    assert metrics["success"] == 1.0


def test_chance_makes_valid_calls_that_follow_its_seed(path):
    env = EmailSearchEnv(path)
    one, metrics = episode(env, "random", "budget", seed=5)
    assert one == episode(env, "random", "budget", seed=5)[0]
    assert one != episode(env, "random", "budget", seed=6)[0]
    assert metrics["valid_call_rate"] == 1.0


def test_words_of_a_question_are_ranked_names_first():
    assert content_words("What is the budget of Anna's Falcon?") == ["budget", "Anna's", "Falcon"]
    assert telling_words("Where is the 2002 quarterly budget of Falcon?") == ["Falcon", "2002", "quarterly", "budget"]
    assert content_words("Quartz项目的预算? 会議 é") == ["Quartz", "项目", "目的", "的预", "预算", "会議"]


@pytest.mark.parametrize(
    ("question", "body", "span"),
    [
        ("When is the report due?", "The report is due 14 March 2024.", "14 March 2024"),
        ("At what time do we meet?", "We meet at 14:30.", "14:30"),
        ("How much is it?", "It is $4,200.", "$4,200"),
        ("Who replaces Anna Keller?", "Anna Keller leaves. Tom Wu takes over.", "Tom Wu"),
        ("Who takes over?", "Dear Anna Keller,\n\nTom Wu takes over.", "Tom Wu"),
        ("Who leads the site?", "After a long search for one,\nTom Wu leads the site.", "Tom Wu"),
        ("In which city is it?", "It is in Lisbon.", "Lisbon"),
        ("Which room?", "Come to Room 204.", "Room 204"),
        ("Why was it late?", "Hello. It was late because of rain. Bye.", "It was late because of rain."),
    ],
)
def test_the_span_that_looks_like_an_answer_is_taken(question, body, span):
    assert answer_span(question, f"From: x\nSubject: y\n\n{body}") == span


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMAIL_ENV_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield demo_database()


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_the_oracle_solves_every_bundled_question(demo, split):
    env = EmailSearchEnv(demo, split=split, max_turns=6, max_results=5)
    failed = [name for name in env.scenario_ids() if episode(env, "oracle", name)[1]["success"] != 1.0]
    assert len(env.scenario_ids()) > 300
    assert failed == []


def test_the_keyword_baseline_finds_easy_questions_easier_than_hard_ones(demo):
    share = {}
    for difficulty in ("easy", "medium", "hard"):
        env = EmailSearchEnv(demo, split="validation", difficulties=difficulty)
        successes = [episode(env, "keyword", name)[1]["success"] for name in env.scenario_ids()]
        share[difficulty] = sum(successes) / len(successes)
    assert share["easy"] > share["medium"] > share["hard"]
    assert share["hard"] < 0.25


def tutored(seed, **kwargs):
    """An episode of the tutor: the question, then (action, imitate, observation) of each turn, and the last metrics."""
    env = EmailSearchEnv(split="train", max_turns=6, **kwargs)
    observation, info = env.reset(seed=seed)
    question, turns, done = observation, [], False
    tutor = TutorPolicy(env, seed=seed)
    while not done:
        action = tutor.act(observation, info)
        observation, _, terminated, truncated, info = env.step(action)
        turns.append((action, tutor.imitate, observation))
        done = terminated or truncated
    env.close()
    return question, turns, info["metrics"]


def test_the_tutor_stumbles_in_about_two_episodes_of_three_recovers_and_marks_what_not_to_imitate():
    searches = reads = 0
    for seed in range(90):
        _, turns, metrics = tutored(seed, fallback_any=False)
        hasty = [(action, observation) for action, imitate, observation in turns if not imitate]
        assert len(hasty) <= 2, "a stumble, and a search of the plan that finds nothing"
        for action, observation in hasty:
            if '"search_inbox"' in action:
                searches += 1
                assert observation.startswith("No mail matches all of")
            else:
                reads += 1
                assert arguments_of(action)["message_id"] not in turns[-1][0], "no source"
        assert turns[-1][1], "the answer is imitated"
        assert metrics["success"] == 1.0
    assert 12 <= searches <= 42
    assert 6 <= reads <= 42, "where another mail is listed"


def arguments_of(action):
    return json.loads(action.split("\n")[1])["arguments"]


def test_where_some_words_are_enough_the_tutor_begins_with_all_of_the_question_and_reads_from_the_top_of_the_list():
    partial = {"order": "relevance", "fallback_any": True, "max_results": 3, "difficulties": ["easy", "medium"]}
    again = below_the_first = unlisted = 0
    for seed in range(60):
        question, turns, metrics = tutored(seed, **partial)
        imitated = [action for action, imitate, _ in turns if imitate]
        searches = [arguments_of(action)["keywords"] for action in imitated if "search_inbox" in action]
        assert searches[0] == content_words(question)[:8]
        again += len(searches) > 1
        assert metrics["success"] == 1.0
        if len(imitated) == len(turns):
            reads = [arguments_of(action)["message_id"] for action in imitated if "read_email" in action]
            listed = [hit_ids(observation) for action, _, observation in turns if "search_inbox" in action][-1]
            if set(reads) <= set(listed):
                assert reads == listed[: len(reads)]
            else:
                unlisted += 1
            below_the_first += len(reads) > 1
    assert 3 <= again <= 25  # where these words do not list the mail
    assert below_the_first >= 4
    assert unlisted <= 3  # no three hits of any words have it


def test_where_all_keywords_must_occur_the_tutor_searches_for_few_words_that_were_seen_names_first():
    searches, misplaced, unseen = 0, 0, []
    for seed in range(60):
        question, turns, metrics = tutored(seed, max_results=5, fallback_any=False)
        seen = question.casefold()
        for action, imitate, observation in turns:
            if imitate and '"search_inbox"' in action and metrics["answerable"]:
                keywords = arguments_of(action)["keywords"]
                searches += 1
                capitals = [keyword[0].isupper() or any(map(str.isdigit, keyword)) for keyword in keywords]
                misplaced += capitals != sorted(capitals, reverse=True)
                unseen += [(question, keyword) for keyword in keywords if keyword.casefold() not in seen]
            seen += observation.casefold()
    assert searches > 50
    assert len(unseen) <= searches * 0.05  # a few questions share no word with their mail
    assert misplaced <= searches * 0.05  # a question's first word is capitalised too, and comes last


def test_the_tutor_needs_no_plan_and_takes_ids_as_they_are_listed(built):
    lunch, tea = "174.1075.JavaMail@thyme", "88.5@thyme"
    database = built(mail(lunch, "Falcon", "The lunch is in Rome."), mail(tea, "Tea", "The tea is in Oslo."))
    asked = question(question="Where is the lunch?", answer="Rome", message_ids=(lunch,), plan=())
    env = EmailSearchEnv(database.path, scenarios=[asked], fallback_any=True, terse=True)
    actions, metrics = episode(env, "tutor", seed=1)
    short = short_id(database, lunch)
    assert actions == [search("lunch"), read(short), answer("Rome", short)]
    assert metrics["success"] == 1.0
    assert metrics["source_recall"] == 1.0
    env.close()
