"""What an answer judge says of answers that a rule took for right: how many it refuses, and which."""

from collections.abc import Sequence
from typing import Any

from grpo.display.metrics import counted
from grpo.episodes.marking import audit_warning

MAX_SHOWN = 20
"""Refused answers on a page; all of them can be found among its episodes."""


def audit_section(audits: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The audits of a page's episodes, the last ones first; None where nothing was audited."""
    if not audits:
        return None
    refused = [audit for audit in reversed(audits) if not audit["accept"]]
    answers = counted(len(audits), "answer")
    said = f"Of {answers} that the rule took for right and the judge saw, too, the judge refuses {len(refused)}."
    return {"said": said, "rows": refused[:MAX_SHOWN]}


def audit_warnings(audits: Sequence[dict[str, Any]], bound: float) -> list[str]:
    """A line where the judge refuses more than the bound."""
    warning = audit_warning(sum(not audit["accept"] for audit in audits), len(audits), bound)
    return [f"{warning[0].upper()}{warning[1:]}."] if warning else []
