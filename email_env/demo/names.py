"""Word pools of the bundled mailboxes.

People, projects and companies come in three disjoint pools, one per split, so that nothing a policy learned
by heart in training helps it on validation or test. Everyday words (cities, rooms, goods, jobs) are shared.
Pure data; `cast.py` draws from it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pools:
    """The names of one split.

    Attributes:
        first: First names.
        last: Last names; no word appears in two fields or in another split's pools.
        projects: One-word project names.
        stems: First words of customer and supplier names ("Halvorsen" in "Halvorsen Foods").
        companies: The firms the inbox owners work for.
    """

    first: tuple[str, ...]
    last: tuple[str, ...]
    projects: tuple[str, ...]
    stems: tuple[str, ...]
    companies: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


TRAIN = Pools(
    first=_words(
        """
        Alice Bruno Carla Derek Elena Farid Greta Hugo Irene Jonas Kira Liam Mona Nils Olga Pedro Quinn
        Rosa Stefan Tara Umar Vera Wade Xenia Yuri Zoe Anton Bella Cyrus Diana Emil Fiona Gavin Helen Ivan
        Julia Karl Laura Marco Nadia Osman Petra Rafael Selma Tobias Ulla Viktor Wanda Yasmin Zoran Agnes
        Boris Clara Dario Esther Felix Gloria Henrik
        """
    ),
    last=_words(
        """
        Adler Bishop Castro Dawson Ekman Fischer Garcia Hansen Ibsen Jordan Keller Lopez Mercer Novak
        Okafor Parker Quigley Romero Sandoval Turner Ulrich Vargas Walker Yilmaz Zeller Abbott Becker
        Clarke Dutton Engel Farrell Gruber Hofmann Iversen Jansen Kowalski Lindberg Moreau Nilsson Olsen
        Petrov Rossi Schulz Tanaka Urban Vogel Wagner Zimmer Andrade Brandt
        """
    ),
    projects=_words(
        """
        Falcon Atlas Orion Cedar Maple Harbor Summit Delta Comet Prism Beacon Granite Willow Nimbus Quartz
        Saturn Meadow Phoenix Ember Lotus Aurora Badger Cobalt Dolphin Echo Fjord Gazelle Hazel Indigo
        Jaguar Kestrel Lagoon Magnet Nectar Opal Panther Raven Sapphire Tempest Vortex
        """
    ),
    stems=_words(
        """
        Halvorsen Alvero Borsen Calder Dunmore Elvado Fenwick Garnet Hollis Ingram Jarvik Kelbrook Lanford
        Marlow Norvik Ostrava Pelham Quenby Ridley Selborne Tarvin Umbra Verano Westley Yarrow Zelkova
        Ardent Brixton Corvus Dalby
        """
    ),
    companies=_words(
        """
        Halden Northgate Brightwater Silverline Eastbrook Redfield Kingsley Oakmont Stonebridge Lakeside
        Fairview Greystone Whitmore Ashford
        """
    ),
)
VALIDATION = Pools(
    first=_words(
        """
        Arthur Bianca Conrad Daphne Edgar Flora Gilbert Hannah Ingrid Jasper Kelvin Lydia Martin Nora
        Oscar Paula Ralph Sonia Theo Ursula Vincent Wilma Albert Brenda Claus Doris Erwin Frida Gustav
        Hilda Igor Jolanda Kasper Leonie Malik Noemi
        """
    ),
    last=_words(
        """
        Archer Barton Cooper Donovan Eastman Foster Gibson Harper Irving Jensen Kramer Lawson Monroe
        Norton Oakley Porter Reeves Sutton Thorne Weber Almeida Bergman Conti Dupont Eriksen Ferrari Gomez
        Huber Ivanov Jonker Kruger Lambert Maier Nagel Ortega Pereira
        """
    ),
    projects=_words(
        """
        Condor Juniper Neptune Glacier Canyon Mercury Birch Horizon Topaz Tundra Rocket Coral Zephyr
        Walnut Viper Thistle Sparrow Pelican
        """
    ),
    stems=_words(
        """
        Abernathy Belmore Crestwood Denholm Everly Farrow Glenmore Haverford Islay Jesmond Kirkby Longford
        Merrow Nesbitt Orwell Penrose Rosslyn Stanmore Thirlby Wexham
        """
    ),
    companies=_words(
        """
        Maplewood Cranfield Holloway Ridgemont Summerfield
        """
    ),
)
TEST = Pools(
    first=_words(
        """
        Amelie Benno Celia Damian Edith Fabian Gerda Hector Isolde Joachim Katrin Lorenz Miriam Norbert
        Odette Philip Regina Samuel Thea Uwe Valerie Werner Ximena Yannick Zelda Armin Berta Cosmo Delia
        Enzo Filippa Goran Heidi Ismael Jutta Konrad
        """
    ),
    last=_words(
        """
        Ackerman Baumann Carlsen Delgado Eklund Fontana Gallagher Hoffner Ismail Jacobs Kaufman Larsen
        Mendes Neumann Osborne Pavlov Quintero Richter Santos Thomsen Ueland Vidal Winkler Zidane Amsel
        Bellini Chavez Drexler Ebner Falk Grimaldi Haugen Isaksen Jarvis Kessler Lehmann
        """
    ),
    projects=_words(
        """
        Otter Lynx Jasmine Basalt Bison Cypress Drifter Eclipse Firefly Gemini Heron Ivory Jupiter Krypton
        Lantern Mistral Nebula Osprey
        """
    ),
    stems=_words(
        """
        Ainsley Bramwell Carrick Dorset Elstow Foxley Grantham Hexham Inverary Jedburgh Keswick Ludlow
        Malvern Newby Otley Padstow Ripley Skelton Tamworth Ulverston
        """
    ),
    companies=_words(
        """
        Birchfield Dunstan Hartwell Pinecrest Thornbury
        """
    ),
)
POOLS: dict[str, Pools] = {"train": TRAIN, "validation": VALIDATION, "test": TEST}

TRADES = _words(
    """
    Foods Metals Textiles Logistics Systems Chemicals Plastics Furniture Optics Paper Energy Tools
    """
)
DEPARTMENTS = _words(
    """
    Operations Finance Sales Engineering Purchasing Quality Logistics Legal Marketing Service
    """
)
CITIES = _words(
    """
    Lisbon Denver Oslo Madrid Chicago Vienna Boston Dublin Geneva Austin Prague Seattle Munich Toronto
    Athens Houston Turin Leeds Lyon Warsaw Bergen Porto Dallas Zurich
    """
)
ROOMS = (
    "Blue Room", "Red Room", "Green Room", "Main Hall", "Library", "Annex", "Glass Room", "Tower Room", "Garden Room",
)  # fmt: skip
HOTELS = (
    "Hotel Bristol", "Hotel Astoria", "Hotel Metropol", "Hotel Central", "Hotel Regent", "Hotel Terminus",
    "Hotel Excelsior", "Hotel Plaza", "Hotel Savoy", "Hotel Continental", "Hotel Bellevue", "Hotel Lindenhof",
)  # fmt: skip
CAUSES = (
    "a worn gasket", "a loose cable", "a wrong setting", "a faulty valve", "a bent shaft", "a software error",
    "a dirty filter", "a missing seal", "a cold joint", "a blocked nozzle", "a mixed-up batch", "a cracked weld",
)  # fmt: skip

# A thing as the mail calls it -> (the question's word in every split, the word only validation and test use).
EVENTS = {
    "kickoff": ("opening session", "first gathering"),
    "review": ("progress check", "status check"),
    "workshop": ("hands-on session", "practice day"),
    "demo": ("product showing", "live showing"),
    "training": ("course", "class"),
    "retrospective": ("look back", "lessons learned round"),
}
PURPOSES = {
    "travel": ("trips", "journeys"),
    "testing": ("trial runs", "experiments"),
    "marketing": ("advertising", "promotion"),
    "hardware": ("equipment", "machines"),
    "recruiting": ("finding new staff", "job adverts"),
}
DOCUMENTS = {
    "report": ("write-up", "summary paper"),
    "proposal": ("bid", "offer paper"),
    "manual": ("handbook", "user guide"),
    "specification": ("requirements list", "list of requirements"),
    "forecast": ("outlook", "projection"),
}
GOODS = {
    "laptops": ("notebooks", "portable computers"),
    "desks": ("work tables", "tables"),
    "chairs": ("seats", "stools"),
    "monitors": ("screens", "displays"),
    "forklifts": ("lift trucks", "loaders"),
    "scanners": ("barcode readers", "readers"),
    "shelves": ("racks", "storage units"),
    "helmets": ("head protection", "hard hats"),
    "projectors": ("beamers", "wall displays"),
    "lamps": ("lights", "lighting"),
}
PROBLEMS = {
    "pump leak": ("dripping pump", "wet pump"),
    "motor noise": ("loud motor", "humming motor"),
    "paint damage": ("scratched paint", "flaking paint"),
    "sensor failure": ("dead sensor", "silent sensor"),
    "label mix-up": ("wrong labels", "swapped labels"),
    "cracked housing": ("broken case", "split case"),
    "missing parts": ("incomplete kit", "gaps in the kit"),
    "brake fault": ("weak brakes", "slipping brakes"),
}
JOBS = {
    "roof repair": ("mending of the roof", "work on the leaky roof"),
    "floor cleaning": ("washing of the floors", "scrubbing of the floors"),
    "lift service": ("elevator maintenance", "elevator check"),
    "window replacement": ("new windows", "exchange of the windows"),
    "heating overhaul": ("work on the boiler", "boiler renewal"),
    "fence painting": ("new coat for the fence", "fresh colour for the fence"),
}
POSITIONS = (
    "warehouse planner", "test engineer", "payroll clerk", "site nurse", "shift leader", "data analyst",
    "export manager", "tax adviser", "lab technician", "fleet manager", "web designer", "safety officer",
)  # fmt: skip
PLACES = ("warehouse", "archive", "server room", "garage", "laboratory")
CONTRACTS = ("service", "supply", "rental", "licence")
PRODUCTS = (
    "valves",
    "pumps",
    "filters",
    "gaskets",
    "cables",
    "bearings",
    "sensors",
    "switches",
    "couplings",
    "rotors",
)
ANNUAL = ("sales conference", "safety day", "summer party", "supplier forum", "strategy meeting")
