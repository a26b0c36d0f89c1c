"""The stories that run through an inbox: each writes the mails that state something and asks about it.

A story claims its topic and writes the mails that state it, with decoys around them. Where a later mail changes
something, a question is asked before the change or after it. Only what the change restates is asked after it.
"""

from email_env.demo.stories import goods, people, projects, unanswerable

STORIES = {
    projects.meeting: 5,
    projects.same_room: 2,
    projects.budget: 2,
    projects.budget_compare: 2,
    projects.deadline: 2,
    projects.deadline_compare: 2,
    projects.release: 1,
    projects.lead: 3,
    projects.annual: 1,
    people.phone: 2,
    people.trip: 1,
    people.visit: 2,
    people.cover: 2,
    people.hire: 2,
    goods.order: 4,
    goods.ticket: 4,
    goods.contract: 2,
    goods.contract_compare: 1,
    goods.offers: 2,
    goods.request: 2,
    goods.door: 2,
    unanswerable.never_written: 4,
    unanswerable.still_open: 2,
    unanswerable.not_yet: 2,
    unanswerable.lead_without_phone: 1,
}
"""How often each story is told in an inbox."""
