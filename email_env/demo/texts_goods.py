"""What the mails say about goods, money and contracts: the statements, and the decoys beside them.

Pure data; the notation is that of `text.py`.
"""

from email_env.demo.text import MailText, mail_text

GOODS_TEXTS: dict[str, MailText] = {
    "order": mail_text(
        "Order: {goods} for {site} | {goods} for {site}",
        "I ordered {count} {goods} for the {site} office from {V}. The order number is {number}, the total {amount}.",
        "The order for {site} is out: {count} {goods} from {V}, order number {number}, total {amount}.",
    ),
    "delivery": mail_text(
        "Delivery of {number} | {number}: delivery date",
        "Your order {number} will be delivered on {date}. Please make sure that somebody is there.",
        "We deliver {number} on {date} before noon.",
    ),
    "delivery_late": mail_text(
        "Delay of {number} | {number}: later than planned",
        "Our truck broke down. {number} will be delivered on {date} instead.",
        "We are sorry: {number} is late and will now be delivered on {date}.",
    ),
    "order_decoy": mail_text(
        "{goods} for {site}? | Wish list {site}: {goods}",
        "The {site} office asks for more {goods}. I said that we look at it next quarter.",
        "Does {site} really need {goods}? {N} thinks that the old ones will do.",
    ),
    "ticket": mail_text(
        "{C}: {problem} | {problem} at {C}",
        "{C} reports a case of {problem} at the {city} plant. I opened ticket {number}.",
        "There is a {problem} at {C} in {city}. The ticket is {number}.",
    ),
    "ticket_closed": mail_text(
        "Ticket {number} closed | {number} solved",
        "Ticket {number} is closed. The cause was {cause}, and we gave a credit of {amount}.",
        "We found the cause for {number}: {cause}. The credit is {amount}, the ticket is closed.",
    ),
    "ticket_decoy": mail_text(
        "{C} again | Call with {C}",
        "{C} called about the ticket. They want to hear from us every day, {problem} or not.",
        "At {C} they are friendly about it, but the {problem} costs them time.",
    ),
    "contract": mail_text(
        "{T} contract with {C} | {C}: {T} contract signed",
        "The {T} contract with {C} runs until {end}. {N} signed it, the value is {amount}.",
        "{N} signed the {T} contract with {C}: it has a value of {amount} and runs until {end}.",
    ),
    "contract_extended": mail_text(
        "{T} contract with {C}: longer | {C}: {T} contract extended",
        "The {T} contract with {C} was extended and now runs until {end}.",
        "We agreed with the other side: the {T} contract with {C} runs until {end}.",
    ),
    "contract_decoy": mail_text(
        "{C}: draft of the {T} contract | Draft for {C}",
        "The draft of the {T} contract with {C} is with legal. Value and end are still open.",
        "{N} read the draft of the {T} contract with {C} and has some questions.",
    ),
    "contract_later": mail_text(
        "{C}: copy of the {T} contract | {T} contract with {C} filed",
        "I filed a copy of the {T} contract with {C}. Ask me if you need it.",
        "{N} is looking for the {T} contract with {C}. Do you have a copy?",
    ),
    "quote": mail_text(
        "Offer: {job} in {site} | {V}: {job} in {site}",
        "{V} asks {amount} for the {job} in {site}.",
        "The offer of {V} for the {job} in {site} is {amount}, all included.",
    ),
    "decision": mail_text(
        "Decision: {job} in {site} | {job} in {site}: decided",
        "We decided to take {V} for the {job} in {site}.",
        "It is decided: {V} does the {job} in {site}.",
    ),
    "decision_changed": mail_text(
        "Decision changed: {job} in {site}",
        "I changed my mind. {V} does the {job} in {site}, it is decided now.",
        "The first one has no time, so it is decided that {V} does the {job} in {site}.",
    ),
    "quote_decoy": mail_text(
        "{job} in {site} | {job} in {site}: access",
        "For the {job} in {site} we need somebody with a key on the spot.",
        "People in {site} ask when the {job} will be. I have no answer yet.",
    ),
    "request": mail_text(
        "FW: Request from {C} | FW: {product} for {C}",
        "See below, {C} is asking for {product}. Can you take this?",
        "This came in from {C}. Please check whether we have the {product} in stock.",
    ),
    "request_changed": mail_text(
        "FW: Change of request from {C} | FW: {C}: other number of {product}",
        "A change from {C}, see below. Please correct the {product} in your list.",
        "{C} thought again about the {product}, see below.",
    ),
    "request_decoy": mail_text(
        "{product} in stock | Question about {product}",
        "The stock of {product} is low. {C} is one of those who might ask next.",
        "{N} wonders whether {C} still buys {product} from us.",
    ),
    "door": mail_text(
        "Door code: {site} {place} | {site} {place}: door code",
        "The door code of the {site} {place} is {code}.",
        "From today the door code for the {site} {place} is {code}.",
    ),
    "door_decoy": mail_text(
        "{site} {place} | {site} {place}: please tidy up",
        "Somebody left the door of the {site} {place} open again. Please take care.",
        "The {site} {place} needs a new lamp over the door. The code lock is fine.",
    ),
    "annual": mail_text(
        "{A} {year} | Save the date: {A} {year}",
        "The {A} {year} takes place in {city} on {date}.",
        "This time we meet in {city}: the {A} {year} is on {date}.",
    ),
    "annual_decoy": mail_text(
        "Ideas for the {A} | {A}: thank you all",
        "Thank you all for the {A}. The photos are on the share.",
        "I collect ideas for the next {A}. {N} has sent two already.",
    ),
}

FORWARDED_REQUEST = (
    "Dear team, we need {count} {product} by {date}. Kind regards",
    "Hello, please send us {count} {product}. We need them by {date}. Many thanks",
)
FORWARDED_CHANGE = ("Dear team, please make it {count} {product}, our first number was wrong. Kind regards",)
