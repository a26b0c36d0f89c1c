"""Questions that one mail answers, about goods, money and contracts: in the mail's own words, and paraphrased.

Pure data; the notation is that of `wording.py`.
"""

from email_env.demo.wording import Wording, plain

GOODS_WORDINGS: dict[str, Wording] = {
    "order_number": plain(
        "{goods}|{site}|order; {goods}|{site}; order|{goods}|{site}",
        """
        What is the order number of the {goods} for {site}? |
        Which order number have the {goods} for {site}? |
        Under which order number did we buy the {goods} for {site}? |
        What order number was given to the {goods} for {site}?
        // Give me the order number of the {goods} for {site}. |
        For {site}, which order number have the {goods}?
        """,
        """
        Which number was given to the purchase of {goods2} for {site}? |
        Under which number did we buy {goods2} for {site}? |
        What reference has the purchase of {goods2} for {site}? |
        Which reference do the {goods2} for {site} have?
        // What do I quote when I ask about the {goods2} for {site}? |
        Which purchase number have the {goods2} for {site}?
        """,
    ),
    "order_total": plain(
        "{goods}|{site}|total; {goods}|{site}",
        """
        What is the total for the {goods} for {site}? | What total do we pay for the {goods} for {site}? |
        How high is the total of the {goods} for {site}? |
        What was the total of the order of {goods} for {site}?
        // Give me the total for the {goods} for {site}. | For {site}, what is the total of the {goods}?
        """,
        """
        How much did the {goods2} for {site} cost? | What did we pay for the {goods2} for {site}? |
        How expensive were the {goods2} for {site}? | What is the price of the {goods2} for {site}?
        // How much money went into {goods2} for {site}? | What did {site} spend on {goods2}?
        """,
    ),
    "ticket_number": plain(
        "{C}|ticket; {C}|{problem}; {problem}|ticket|{stem}",
        """
        Which ticket was opened for the {problem} at {C}? | What is the ticket for the {problem} at {C}? |
        Which ticket has the {problem} at {C}? | Under which ticket is the {problem} at {C}?
        // Give me the ticket for the {problem} at {C}. | The {problem} at {C} is in which ticket?
        """,
        """
        Under which number do we handle the {problem2} at {C}? |
        Which number has the complaint of {C} about the {problem2}? |
        What is the case number of the {problem2} at {C}? | Which number did the {problem2} at {C} get?
        // How is the {problem2} at {C} filed? | What do I quote to {C} about the {problem2}?
        """,
    ),
    "contract_end": plain(
        "{C}|{T} contract; {T} contract|{stem}; {C}|contract",
        """
        Until when does the {T} contract with {C} run? |
        Until which date does the {T} contract with {C} run? |
        How long does the {T} contract with {C} run? | When does the {T} contract with {C} run out?
        // The {T} contract with {C} runs until when? | Until what date runs the {T} contract with {C}?
        """,
        """
        When does the {T} agreement with {C} end? | When does the {T} agreement with {C} expire? |
        How long is {C} bound by the {T} agreement? | What is the last day of the {T} agreement with {C}?
        // When is the {T} deal with {C} over? | When must we renew the {T} deal with {C}?
        """,
    ),
    "contract_value": plain(
        "{C}|{T} contract; {T} contract|{stem}; {C}|contract",
        """
        What is the value of the {T} contract with {C}? | Which value has the {T} contract with {C}? |
        How high is the value of the {T} contract with {C}? |
        What value does the {T} contract with {C} have? // Give me the value of the {T} contract with {C}. |
        For {C}, what is the value of the {T} contract?
        """,
        """
        How much is the {T} agreement with {C} worth? | What does {C} pay under the {T} agreement? |
        How much money is in the {T} agreement with {C}? | What sum is in the {T} agreement with {C}?
        // How big is the {T} deal with {C}? | What do we earn from the {T} deal with {C}?
        """,
    ),
    "contract_signer": plain(
        "{C}|signed; {C}|{T} contract; {T} contract|{stem}",
        """
        Who signed the {T} contract with {C}? | Which colleague signed the {T} contract with {C}? |
        By whom was the {T} contract with {C} signed? |
        Whose name is under the {T} contract signed with {C}?
        // Name the person who signed the {T} contract with {C}. |
        The {T} contract with {C} was signed by whom?
        """,
        """
        Who closed the {T} agreement with {C}? | Who put a name under the {T} agreement with {C}? |
        Who made the {T} agreement with {C} binding? | Who concluded the {T} agreement with {C}?
        // Who settled the {T} deal with {C}? | Who sealed the {T} deal with {C}?
        """,
    ),
    "quote_price": plain(
        "{V}|{job}; {job}|{stem}; {V}|{site}",
        """
        What does {V} ask for the {job} in {site}? | How much does {V} ask for the {job} in {site}? |
        What is the offer of {V} for the {job} in {site}? |
        How high is the offer of {V} for the {job} in {site}?
        // Give me the offer of {V} for the {job} in {site}. | For the {job} in {site}, what does {V} ask?
        """,
        """
        What would {V} charge for the {job2} in {site}? |
        How much would the {job2} in {site} cost with {V}? |
        What is the price of {V} for the {job2} in {site}? |
        How much does {V} want for the {job2} in {site}?
        // What bill can {site} expect from {V} for the {job2}? |
        How much would {V} take for the {job2} in {site}?
        """,
    ),
    "decision_name": plain(
        "{job}|{site}|decided; {job}|{site}; {job}|decided",
        """
        Who does the {job} in {site}? | Which supplier does the {job} in {site}? |
        Whom did we take for the {job} in {site}? | Who was decided on for the {job} in {site}?
        // Name the firm that does the {job} in {site}. | For the {job} in {site}, whom do we take?
        """,
        """
        Which firm got the {job2} in {site}? | Who was chosen for the {job2} in {site}? |
        Who carries out the {job2} in {site}? | Which company won the {job2} in {site}?
        // To whom did we award the {job2} in {site}? | Which contractor comes to {site} for the {job2}?
        """,
    ),
    "request_count": plain(
        "{C}|{product}; {product}|{stem}; need|{product}",
        """
        How many {product} does {C} need? | How many {product} did {C} ask for? |
        What number of {product} does {C} need? | Of the {product}, how many does {C} need?
        // Tell me how many {product} {C} needs. | {C} needs how many {product}?
        """,
        """
        What quantity did {C} request? | How large is the request of {C}? |
        How many pieces does {C} want from us? | What quantity does {C} want to buy?
        // How many pieces should we set aside for {C}? | What amount did {C} put in the request?
        """,
    ),
    "request_date": plain(
        "{C}|{product}; {product}|{stem}; {C}|need",
        """
        By which date does {C} need the {product}? | By when does {C} need the {product}? |
        Until which date does {C} need the {product}? | When does {C} need the {product}?
        // Tell me by when {C} needs the {product}. | {C} needs the {product} by which date?
        """,
        """
        By when must the goods be at {C}? | When does {C} expect the goods? |
        By which day should {C} have the goods? | When is the request of {C} to be met?
        // When must we have served {C}? | How soon does {C} want the goods?
        """,
    ),
    "door_code": plain(
        "{site} {place}|door code; {site}|{place}|door code; {site} {place}|code",
        """
        What is the door code of the {site} {place}? | Which door code has the {site} {place}? |
        What door code do I need for the {site} {place}? | Which is the door code for the {site} {place}?
        // Give me the door code of the {site} {place}. | The {site} {place} has which door code?
        """,
        """
        Which digits open the {site} {place}? | How do I get into the {site} {place}? |
        What do I type in to enter the {site} {place}? | Which digits do I need for the {site} {place}?
        // How can I unlock the {site} {place}? | What lets me into the {site} {place}?
        """,
    ),
    "annual_city": plain(
        "{A}|{year}; {A} {year}",
        """
        In which city is the {A} {year}? | Where does the {A} {year} take place? |
        Which city hosts the {A} {year}? | What is the city of the {A} {year}?
        // To which city do we go for the {A} {year}? | The {A} {year} is in which city?
        """,
        """
        In which city was last year's {A}? | Where did last year's {A} take place? |
        Which city hosted last year's {A}? | To which city did last year's {A} go?
        // Where were we for last year's {A}? | Last year's {A}: which city was it?
        """,
    ),
}
