"""The one table of families: what stands in it is tested, and docs/models.md says it."""

import json

import pytest
from click.testing import CliRunner

from grpo.cli.doctor import doctor
from grpo.devices.families import FAMILIES, check_family, family_of
from grpo.errors import ModelError
from tests.support import models_page
from tests.support.families import SERVED, TINY


def test_the_page_has_the_table_of_the_code():
    page = models_page.PAGE.read_text(encoding="utf-8")
    assert page == models_page.with_table(page), "write it anew: python -m tests.support.models_page"


def test_every_family_that_is_not_refused_is_tested():
    kinds = [kind for family in FAMILIES for kind in family.kinds]
    assert len(kinds) == len({*kinds})
    for family in FAMILIES:
        assert family.is_refused or all(kind in TINY for kind in family.kinds), family.name
        assert not family.is_refused or family.why, family.name
        served = family.name == "Llama, SmolLM2" or any(kind in SERVED for kind in family.kinds)
        assert family.served is served, family.name


def test_an_unknown_family_needs_an_option_and_a_refused_one_is_refused_with_it():
    with pytest.raises(ModelError, match=r"^nobody tested models of the kind 'olmo' here; .*--set untested_model=true"):
        check_family({"model_type": "olmo"}, untested=False)
    check_family({"model_type": "olmo"}, untested=True)
    check_family({"model_type": "qwen3_5_text"}, untested=False)
    with pytest.raises(ModelError, match=r"^models of gpt-oss \(gpt_oss\) are refused: its calls in channels are not"):
        check_family({"model_type": "gpt_oss"}, untested=True)


@pytest.mark.parametrize(
    ("kind", "status", "said"),
    [
        ("qwen3", "ok", "Qwen3: trained and served here; calls: JSON in tags; tested"),
        ("qwen3_moe", "ok", "Qwen3 MoE: computed here, never served: with LoRA, vLLM computes experts on GPUs alone"),
        ("gpt_oss", "failed", "models of gpt-oss (gpt_oss) are refused"),
        ("olmo", "failed", "nobody tested models of the kind 'olmo' here"),
    ],
)
def test_the_doctor_says_the_row_of_a_model(tmp_path, kind, status, said):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    ran = CliRunner().invoke(doctor, ["--model", str(tmp_path), "--quick", "--json"])
    (found,) = [row for row in json.loads(ran.output) if row["name"] == "model family"]
    assert found["status"] == status
    assert found["found"].startswith(said)
    assert family_of({}) is None
