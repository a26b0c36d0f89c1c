"""Questions that one mail answers, about projects and people: in the mail's own words, and paraphrased.

Pure data; the notation is that of `wording.py`.
"""

from email_env.demo.wording import Wording, plain

PROJECT_WORDINGS: dict[str, Wording] = {
    "meeting_day": plain(
        "{P}|{E}; {E}|{P}; {P} {E}",
        """
        On which day is the {what}? | Which day was fixed for the {what}? |
        On what weekday does the {what} take place? | What day is the {what}?
        // Which weekday should I keep free for the {what}? | The {what}: on which weekday is it?
        """,
    ),
    "meeting_time": plain(
        "{P}|{E}; {E}|{P}; {P} {E}",
        """
        At what time does the {what} start? | What time is the {what}? | At what time is the {what}? |
        When on the day does the {what} begin? // At which hour should I be at the {what}? |
        What is the starting time of the {what}?
        """,
    ),
    "meeting_room": plain(
        "{P}|{E}; {E}|{P}; {P} {E}",
        """
        In which room is the {what}? | Where is the {what} held? | Which room is the {what} in? |
        Where do we meet for the {what}? // To which room do I go for the {what}? |
        What is the place of the {what}?
        """,
    ),
    "budget_amount": plain(
        "{P}|{U} budget; {P}|{U}|budget; {U} budget|{P}",
        """
        What {U} budget was approved for {P}? | How high is the approved {U} budget of {P}? |
        What is the approved {U} budget for {P}? | How big is the {U} budget that was approved for {P}?
        // Which sum was approved as {U} budget of {P}? | Tell me the approved {U} budget of {P}.
        """,
        """
        How much money may {P} spend on {U2}? | What sum does {P} have for {U2}? |
        How much may {P} pay for {U2}? | What can {P} spend on {U2}? // What is the limit for {U2} in {P}? |
        How much has {P} got for {U2}?
        """,
    ),
    "deadline_date": plain(
        "{P}|{D}; {P} {D}; {D}|{P}",
        """
        When is the {P} {D} due? | On which date is the {P} {D} due? |
        What is the due date of the {P} {D}? | By which date is the {P} {D} due?
        // On what day of the month is the {P} {D} due? | Due date of the {P} {D}?
        """,
        """
        By when must we hand in the {D2} for {P}? | What is the last day for the {D2} of {P}? |
        When do we have to deliver the {P} {D2}? | Until when can we work on the {P} {D2}?
        // How long do we have for the {D2} of {P}? | What is the deadline for the {P} {D2}?
        """,
    ),
    "release_date": plain(
        "{P} {v}; {P}|{v}",
        """
        When does {P} {v} go live? | On which date does {P} {v} go live? |
        Which date is set for {P} {v} to go live? | When will {P} {v} be live?
        // What is the live date of {P} {v}? | On what date is {P} {v} live?
        """,
        """
        When do customers get version {v} of {P}? | When is version {v} of {P} rolled out? |
        On which date is {P} {v} released? | When can users expect {P} {v}?
        // What is the launch date of {P} {v}? | When does {P} version {v} come out?
        """,
    ),
    "lead_name": plain(
        "{P}|lead; lead|{P}",
        """
        Who is the lead of {P}? | Who has the lead of {P}? | Who took the lead of {P}? |
        Which colleague is the lead of {P}? // What is the name of the lead of {P}? |
        Tell me who has the lead of {P}.
        """,
        """
        Who is in charge of {P}? | Who runs {P}? | Who is responsible for {P}? | Who heads {P}?
        // Who is the boss of {P}? | Who makes the decisions in {P}?
        """,
    ),
    "flight_code": plain(
        "{N}|flight; {N}|{city}; {city}|flight|{last}",
        """
        What is the booking code of the flight of {N} to {city}? |
        Which booking code has the flight of {N} to {city}? |
        What booking code does {N} have for the flight to {city}? |
        Under which booking code is the flight of {N} to {city}?
        // Give me the booking code for the flight of {N} to {city}. |
        {N} has which booking code for the flight to {city}?
        """,
        """
        Which reference does {N} need at check-in for {city}? |
        With which reference does {N} check in for {city}? |
        What reference does the airline have for {N} and {city}? |
        Which letters and digits does {N} type in to check in for {city}?
        // What does {N} show at the airport counter for {city}? |
        Which airline reference has {N} for {city}?
        """,
    ),
    "flight_date": plain(
        "{N}|flight; {N}|{city}; {city}|flight|{last}",
        """
        On which date is the flight of {N} to {city}? |
        For which date is the flight of {N} to {city} booked? | When is the flight of {N} to {city}? |
        What is the date of the flight of {N} to {city}?
        // On what day of the month is the flight of {N} to {city}? | Date of the flight of {N} to {city}?
        """,
        """
        When does {N} leave for {city}? | On which day does {N} travel to {city}? |
        When does {N} set off for {city}? | What is the travel date of {N} for {city}?
        // When is {N} on the plane to {city}? | What day does {N} depart for {city}?
        """,
    ),
    "hotel_name": plain(
        "{N}|hotel; {city}|hotel|{last}; {N}|{city}|hotel",
        """
        Which hotel is booked for {N} in {city}? | What hotel does {N} have in {city}? |
        Which hotel is {N} in while in {city}? | What is the hotel of {N} in {city}?
        // Name the hotel of {N} in {city}. | In {city}, which hotel was booked for {N}?
        """,
        """
        Where does {N} stay in {city}? | Where will {N} sleep in {city}? |
        Where does {N} spend the night in {city}? | At which house does {N} stay in {city}?
        // What accommodation does {N} have in {city}? | Where is {N} lodged in {city}?
        """,
    ),
    "phone_number": plain(
        "{N}|phone number; {N}|phone; phone number|{last}",
        """
        What is the phone number of {N}? | Which phone number does {N} have? | What phone number has {N}? |
        Under which phone number is {N} listed? // Give me the phone number of {N}. |
        {N} has which phone number?
        """,
        """
        How can I call {N}? | What do I dial to speak to {N}? | How do I ring {N}? |
        What do I have to dial for {N}? // How can I get {N} on the line? | Which number gets me {N} on the line?
        """,
    ),
    "cover_name": plain(
        "{N}|covers; {N}|leave; {N}|{month}",
        """
        Who covers for {N} during the leave in {month}? | Who covers for {N} in {month}? |
        Which colleague covers for {N} in {month}? | When {N} is on leave in {month}, who covers?
        // Name the colleague who covers for {N} in {month}. | In {month}, who covers for {N}?
        """,
        """
        Who stands in for {N} during the {month} holiday? | Who does the work of {N} in {month}? |
        Who replaces {N} in {month}? | Who steps in for {N} while away in {month}?
        // Who is the deputy of {N} in {month}? | Who takes over from {N} in {month}?
        """,
    ),
    "hire_name": plain(
        "{pos}|hired; hired|{pos}",
        """
        Who was hired as {pos}? | Whom have we hired as {pos}? | Who is hired as {pos}? |
        Which person was hired as {pos}? // What is the name of the {pos} we hired? |
        Name the person hired as {pos}.
        """,
        """
        Who got the job as {pos}? | Which applicant did we choose as {pos}? |
        Whom did we take on as {pos}? | Who won the race for {pos}? // Who is going to be our {pos}? |
        Who came out on top for {pos}?
        """,
    ),
    "hire_start": plain(
        "{pos}|starts; new {pos}; {pos}|hired",
        """
        On which date does the new {pos} start? | When does the new {pos} start? |
        What is the start date of the new {pos}? | From which date do we have the new {pos}?
        // When can we expect the new {pos}? | The new {pos} starts on which date?
        """,
        """
        When is the first working day of the {pos} we took on? | When does the {pos} we chose begin? |
        From when on does the {pos} we found work here? | When does our next {pos} begin?
        // When does the {pos} we picked turn up? | What is day one for the {pos} we took on?
        """,
    ),
}
