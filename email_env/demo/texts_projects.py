"""What the mails say about projects and people: the statements, and the decoys beside them.

Pure data; the notation is that of `text.py`.
"""

from email_env.demo.text import MailText, mail_text

PROJECT_TEXTS: dict[str, MailText] = {
    "meeting": mail_text(
        "{P} {E} | {P} {E}: when and where | Invitation to the {P} {E}",
        "The {P} {E} is on {day} {date} at {time} in {room}.",
        "Please keep {day} {date} free: the {P} {E} starts at {time} in {room}.",
        "We hold the {P} {E} on {day} {date}, {time}, in {room}.",
    ),
    "meeting_moved": mail_text(
        "{P} {E} moved | Change: {P} {E}",
        "The {P} {E} is moved to {day} {date}. Everything else stays as it was.",
        "Sorry, we have to shift the {P} {E} to {day} {date}. All else is unchanged.",
    ),
    "meeting_thread": mail_text(
        "",
        "{day} {date} suits everybody better, so let us take that one instead.",
        "Half the team is away then. New plan: {day} {date}.",
    ),
    "meeting_same_room": mail_text(
        "{P} {E} | {P} {E}: when and where",
        "The {P} {E} is on {day} {date} at {time}, in the same room as the {P2} {E2}.",
        "We hold the {P} {E} on {day} {date}, {time}, where the {P2} {E2} was planned as well.",
    ),
    "meeting_open": mail_text(
        "{P} {E} | {P} {E}: still open",
        "The {P} {E} has to be planned. Day and room are still open, I will come back to you.",
        "We have no day and no room for the {P} {E} yet. I hope to know more soon.",
    ),
    "meeting_decoy": mail_text(
        "Slides for the {P} {E} | Notes for the {P} {E} | {P} {E}: who brings what",
        "I put the slides for the {P} {E} on the share. Tell me if a figure looks wrong.",
        "Could you bring your notes to the {P} {E}? {N} wants to see them first.",
        "{N} cannot join the {P} {E} and asks for a short summary afterwards.",
    ),
    "budget": mail_text(
        "{P} {U} budget | Budget approved: {P} {U} | {U} budget for {P}",
        "Finance approved a {U} budget of {amount} for {P}.",
        "The approved {U} budget for {P} is {amount}.",
        "Good news, the {U} budget of {P} is approved: {amount} for this year.",
    ),
    "budget_cut": mail_text(
        "{P} {U} budget changed | Change of the {P} {U} budget",
        "Finance looked again at {P}. The approved {U} budget is now {amount}.",
        "The {U} budget of {P} was changed: {amount} is approved, the old figure is void.",
    ),
    "budget_open": mail_text(
        "{P} {U} budget | {P} {U} budget: no decision yet",
        "There is no decision on the {U} budget of {P} yet. Finance meets again next month.",
        "The {U} budget for {P} is still with finance and nothing is approved so far.",
    ),
    "budget_decoy": mail_text(
        "Request: {P} {U} budget | {P} {U} budget: what we ask for",
        "We asked finance for {asked} as the {U} budget of {P}. The answer is still open.",
        "{N} wants to request {asked} for the {P} {U} budget. Nothing is decided.",
    ),
    "budget_later": mail_text(
        "{P} {U} budget: how to book | Bookings on the {P} {U} budget",
        "Please book all {U} costs of {P} on the new cost centre, so that the budget stays readable.",
        "Who books on the {U} budget of {P}? {N} found two bills that do not belong there.",
    ),
    "deadline": mail_text(
        "{P} {D} | {P} {D}: due date | Due date of the {P} {D}",
        "The {P} {D} is due on {date}.",
        "Please remember that the {P} {D} is due on {date}, no later.",
        "For your planning: the due date of the {P} {D} is {date}.",
    ),
    "deadline_moved": mail_text(
        "{P} {D}: new due date | More time for the {P} {D}",
        "We got more time. The {P} {D} is now due on {date}.",
        "The due date of the {P} {D} has changed to {date}.",
    ),
    "deadline_decoy": mail_text(
        "Draft of the {P} {D} | {P} {D}: comments | Who checks the {P} {D}?",
        "The draft of the {P} {D} is on the share. {N} has read half of it.",
        "I have a few comments on the {P} {D}, mostly about chapter three.",
        "{N} offers to check the {P} {D} before it is due.",
    ),
    "release": mail_text(
        "{P} {v} | {P} {v} goes live | Go-live of {P} {v}",
        "{P} {v} goes live on {date}.",
        "The date is fixed: {P} {v} goes live on {date}.",
        "We agreed that {P} {v} goes live on {date}.",
    ),
    "release_moved": mail_text(
        "{P} {v} postponed | {P} {v}: new date",
        "{P} {v} is postponed. It now goes live on {date}.",
        "Testing needs more time, so {P} {v} goes live on {date} only.",
    ),
    "release_decoy": mail_text(
        "{P} {v}: open faults | Test of {P} {v}",
        "The test of {P} {v} found {count} faults. None of them stops us.",
        "{N} keeps the list of open faults for {P} {v}. It has {count} lines today.",
    ),
    "lead": mail_text(
        "Lead of {P} | New lead for {P} | {P}: new lead",
        "{N} is the new lead of {P}.",
        "From today {N} has the lead of {P}.",
        "We agreed that {N} takes the lead of {P}.",
    ),
    "lead_decoy": mail_text(
        "{P} team | {P}: who does what",
        "{N} joins the {P} team and will support the lead.",
        "{N} takes the minutes for {P} while the lead is busy.",
    ),
    "thanks": mail_text(
        "",
        "Thank you, that is all I needed.",
        "Noted, many thanks. I will let the others know.",
        "Good, that helps. I have no further questions.",
    ),
    "flight": mail_text(
        "Flight to {city}: {N} | Flight booked: {N} to {city}",
        "{N} flies to {city} on {date}. The booking code is {code}.",
        "The flight of {N} to {city} is booked for {date}, booking code {code}.",
    ),
    "flight_changed": mail_text(
        "Flight changed: {N} to {city} | New flight to {city}: {N}",
        "The flight was changed. {N} now flies to {city} on {date}, the new booking code is {code}.",
        "New flight for {N} to {city}: {date}, booking code {code}. The old one is cancelled.",
    ),
    "hotel": mail_text(
        "Hotel in {city}: {N} | Hotel booked: {N} in {city}",
        "{hotel} is booked for {N} in {city}, breakfast included.",
        "The hotel for {N} in {city} is booked: {hotel}, two nights.",
    ),
    "travel_decoy": mail_text(
        "{N} in {city} | Trip to {city}: {N}",
        "{N} asks who else would like to come along to {city}. The flight is long and the programme dense.",
        "Before {N} goes to {city}, we should agree on the hotel rules and on who pays for dinner.",
    ),
    "travel_later": mail_text(
        "Receipts: {N}, {city} | {N} is back from {city}",
        "{N} is back from {city} and handed in the receipts for flight, hotel and dinner.",
        "The receipts of {N} for {city} are complete, flight and hotel included.",
    ),
    "visit": mail_text(
        "Visit to {C} | {C}: visit in {city}",
        "{N} will visit {C} in {city} next month.",
        "The visit to {C} in {city} is settled, {N} goes for us.",
    ),
    "phone": mail_text(
        "Phone number of {N} | New phone number: {N}",
        "The phone number of {N} is {phone}.",
        "Please note the new phone number of {N}: {phone}.",
        "{N} has a new phone number, {phone}. It works from today.",
    ),
    "phone_decoy": mail_text(
        "Phone list | {N} on the phone | Missed call from {N}",
        "{N} called while you were out and will phone again tomorrow.",
        "The phone list is out of date. {N} promised to mend it.",
        "{N} was on the phone for an hour, so we start later today.",
    ),
    "cover": mail_text(
        "Leave of {N} in {month} | {N} on leave in {month} | Leave: {N}, {month}",
        "{N} is on leave in {month} and is back on {back}. {M} covers for {first}.",
        "{M} covers for {N}, who is on leave in {month} and back on {back}.",
    ),
    "cover_changed": mail_text(
        "Leave of {N} in {month}: change | Change of cover for {N}",
        "A change for the leave of {N} in {month}: {M} covers instead.",
        "Other than planned, {M} covers for {N} during the leave in {month}.",
    ),
    "cover_decoy": mail_text(
        "Leave planning | {N}: leave days left",
        "{N} has some leave days left and may take them in {month}. Nothing is fixed.",
        "For the leave list: {N} asked whether {month} is a good time. {M} did too.",
    ),
    "cover_later": mail_text(
        "{N}: list of open points | Before the leave of {N}",
        "{N} left a list of open points before the leave in {month}.",
        "Please ask {N} now if you need something, the leave in {month} is close.",
    ),
    "hire": mail_text(
        "New {pos} | We hired a {pos} | {pos}: decision",
        "We hired {N} as {pos}. Our new {pos} starts on {date}.",
        "The decision is made: {N} is hired as {pos} and starts on {date}.",
    ),
    "hire_decoy": mail_text(
        "Interview for {pos}: {N} | Applicant for {pos}: {N}",
        "I had the interview with {N} for the job as {pos}. A strong applicant, but no decision yet.",
        "{N} applied as {pos}. The papers are complete, the interview is next week.",
    ),
    "hire_later": mail_text(
        "Desk for the new {pos} | Welcome of the new {pos}",
        "We need a desk and a phone for the new {pos}. Who can see to it?",
        "{N} looks after the new {pos} in the first weeks.",
    ),
}
