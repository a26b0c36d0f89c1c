"""Questions that need two mails: chains and comparisons.

Pure data; the notation is that of `wording.py`. In a chain the second search needs something read in the
first mail; in a comparison two mails are set side by side.
"""

from email_env.demo.wording import Wording, chain

CHAIN_WORDINGS: dict[str, Wording] = {
    "lead_phone": chain(
        "{P}|lead; lead|{P}",
        "{N}|phone number; {N}|phone",
        """
        What is the phone number of the lead of {P}? | Which phone number has the lead of {P}? |
        How can I call the lead of {P}? | What do I dial for the lead of {P}?
        // Give me the phone number of whoever has the lead of {P}. |
        How do I get the lead of {P} on the line?
        """,
    ),
    "cover_phone": chain(
        "{N}|covers; {N}|leave",
        "{M}|phone number; {M}|phone",
        """
        What is the phone number of the colleague who covers for {N} in {month}? |
        How can I call the colleague who covers for {N} in {month}? |
        Which phone number has the colleague who covers for {N} in {month}? |
        What do I dial for the colleague who covers for {N} in {month}?
        // Who covers for {N} in {month}, and under which phone number? |
        Give me the phone number of the person who covers for {N} in {month}.
        """,
    ),
    "visit_code": chain(
        "{C}|visit; visit|{stem}",
        "{N}|flight; {N}|{city}",
        """
        What is the booking code of the flight for the visit to {C}? |
        Which booking code has the colleague who goes on the visit to {C}? |
        Under which booking code is the flight for the visit to {C}? |
        What booking code belongs to the visit to {C}? // Give me the flight code for the visit to {C}. |
        For the visit to {C}, what booking code do we have?
        """,
    ),
    "visit_hotel": chain(
        "{C}|visit; visit|{stem}",
        "{N}|hotel; {N}|{city}|hotel",
        """
        In which hotel is the colleague who goes on the visit to {C}? |
        Which hotel is booked for the visit to {C}? | Where does the colleague stay for the visit to {C}? |
        What hotel do we use for the visit to {C}? // Name the hotel for the visit to {C}. |
        For the visit to {C}, where is our colleague lodged?
        """,
    ),
    "order_delivery": chain(
        "{goods}|{site}|order; {goods}|{site}",
        "{number}|delivered; {number}",
        """
        When will the {goods} for {site} arrive? | On which date do the {goods} for {site} arrive? |
        When do we get the {goods} for {site}? | On which date will the {goods} reach {site}?
        // When can {site} expect the {goods}? | When does the truck with the {goods} come to {site}?
        """,
    ),
    "ticket_cause": chain(
        "{C}|{problem}; {C}|ticket",
        "{number}|cause; {number}",
        """
        What was the cause of the {problem} at {C}? | What caused the {problem} at {C}? |
        Why was there a {problem} at {C}? | What was behind the {problem} at {C}?
        // What was wrong when {C} had the {problem}? | Which defect led to the {problem} at {C}?
        """,
    ),
    "ticket_credit": chain(
        "{C}|{problem}; {C}|ticket",
        "{number}|credit; {number}",
        """
        What credit did {C} get for the {problem}? | How much credit did we give {C} for the {problem}? |
        How high was the credit to {C} for the {problem}? | How much did {C} get back for the {problem}?
        // What did the {problem} at {C} cost us? | What sum did {C} receive for the {problem}?
        """,
    ),
    "decision_price": chain(
        "{job}|{site}|decided; {job}|decided",
        "{V}|{job}; {V}|{site}",
        """
        What does the firm we took for the {job} in {site} ask? |
        How much do we pay for the {job} in {site}? |
        What is the price of the {job} in {site} with the firm we took? |
        How high was the offer that won the {job} in {site}? // What will the {job} in {site} cost us? |
        At what price did we award the {job} in {site}?
        """,
    ),
    "same_room": chain(
        "{P}|{E}; {P} {E}",
        "{P2}|{E2}; {P2} {E2}",
        """
        In which room is the {P} {E}? | Where is the {P} {E} held? | Which room is the {P} {E} in? |
        Where do we meet for the {P} {E}? // To which room do I go for the {P} {E}? |
        What is the place of the {P} {E}?
        """,
    ),
    "budget_compare": chain(
        "{P}|{U} budget; {P}|{U}|budget",
        "{P2}|{U} budget; {P2}|{U}|budget",
        """
        Which project has the larger {U} budget, {P} or {P2}? |
        Who got the larger {U} budget, {P} or {P2}? | Is the {U} budget larger for {P} or for {P2}? |
        Which {U} budget is larger, that of {P} or that of {P2}?
        // Who may spend more on the {U} budget, {P} or {P2}? | {P} or {P2}: whose {U} budget is larger?
        """,
    ),
    "deadline_compare": chain(
        "{P}|{D}; {P} {D}",
        "{P2}|{D}; {P2} {D}",
        """
        Which {D} is due first, that of {P} or that of {P2}? | Whose {D} is due first, {P} or {P2}? |
        Which project has its {D} due first, {P} or {P2}? | Is the {D} of {P} or of {P2} due first?
        // Which {D} comes first, {P} or {P2}? | {P} or {P2}: whose {D} is due earlier?
        """,
    ),
    "quote_compare": chain(
        "{V}|{job}; {V}|{site}",
        "{V2}|{job}; {V2}|{site}",
        """
        Who is cheaper for the {job} in {site}, {V} or {V2}? |
        Who asks less for the {job} in {site}, {V} or {V2}? |
        Which offer for the {job} in {site} is lower, {V} or {V2}? |
        Who is the cheaper one for the {job} in {site}, {V} or {V2}?
        // {V} or {V2}: who would do the {job} in {site} for less money? |
        Between {V} and {V2}, who has the lower offer for the {job} in {site}?
        """,
    ),
    "contract_compare": chain(
        "{C}|{T} contract; {C}|contract",
        "{C2}|{T} contract; {C2}|contract",
        """
        Which {T} contract runs longer, {C} or {C2}? | Whose {T} contract runs longer, {C} or {C2}? |
        Does the {T} contract of {C} or of {C2} run longer? |
        Which customer has the longer {T} contract, {C} or {C2}?
        // {C} or {C2}: whose {T} contract ends later? |
        Between {C} and {C2}, which {T} contract lasts longer?
        """,
    ),
}
