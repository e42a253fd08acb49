"""The words that made texts are made of. Written for this; the old poems are in the public
domain."""

from typing import Final


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NAMES: Final = _words(
    "Nora Ivan Mei Kofi Lena Tomás Aisha Björn Priya Yuki Omar Zoë Dmitri Chloé Hans Ingrid Paolo "
    "Fatima Liam Sana"
)
THINGS: Final = _words(
    "pump valve filter gasket sensor router cable battery bracket hinge lamp fan motor belt "
    "switch relay fuse panel pipe nozzle bearing spring washer clamp"
)
PLACES: Final = _words(
    "Lisbon Oslo Nairobi Kyoto Lima Ghent Perth Quito Riga Tunis Hanoi Porto Bergen Kraków Zürich "
    "Málaga Izmir Cork"
)
VERBS: Final = _words(
    "checks repairs orders moves counts paints opens closes measures replaces cleans labels sorts "
    "packs tests weighs"
)
ADJECTIVES: Final = _words(
    "old small red heavy broken quiet spare cheap narrow wooden green loose cold bright rusty plain"
)
OPENINGS: Final = (
    "Sure, here you go:",
    "Of course! Here is what you asked for.",
    "Here's a quick overview.",
    "Certainly. Let's go through it step by step.",
    "Good question.",
    "Below is the result.",
    "Okay, done:",
)

# Refrains come back word for word. Public domain: traditional, Burns (1788), Poe (1845), Carroll
# (1871), Tennyson (1855), Heine (1824), de Lorris' rondel form after Charles d'Orléans (c. 1450).
POEMS: Final = {
    "row": (
        "Row, row, row your boat,\nGently down the stream.\n"
        "Merrily, merrily, merrily, merrily,\nLife is but a dream."
    ),
    "syne": (
        "Should auld acquaintance be forgot,\nAnd never brought to mind?\n"
        "Should auld acquaintance be forgot,\nAnd auld lang syne!\n\n"
        "For auld lang syne, my dear,\nFor auld lang syne,\n"
        "We'll tak a cup o' kindness yet,\nFor auld lang syne."
    ),
    "raven": (
        "Once upon a midnight dreary, while I pondered, weak and weary,\n"
        "Over many a quaint and curious volume of forgotten lore—\n"
        "While I nodded, nearly napping, suddenly there came a tapping,\n"
        "As of some one gently rapping, rapping at my chamber door.\n"
        "“'Tis some visitor,” I muttered, “tapping at my chamber door—\n"
        "Only this and nothing more.”"
    ),
    "jabberwocky": (
        "'Twas brillig, and the slithy toves\nDid gyre and gimble in the wabe;\n"
        "All mimsy were the borogoves,\nAnd the mome raths outgrabe.\n\n"
        "One, two! One, two! And through and through\n"
        "The vorpal blade went snicker-snack!\nHe left it dead, and with its head\n"
        "He went galumphing back."
    ),
    "brigade": (
        "Half a league, half a league,\nHalf a league onward,\nAll in the valley of Death\n"
        "Rode the six hundred.\n\nCannon to right of them,\nCannon to left of them,\n"
        "Cannon in front of them\nVolleyed and thundered;"
    ),
    "jacques": (
        "Frère Jacques, frère Jacques,\nDormez-vous ? Dormez-vous ?\n"
        "Sonnez les matines ! Sonnez les matines !\nDing, ding, dong. Ding, ding, dong."
    ),
    "loreley": (
        "Ich weiß nicht, was soll es bedeuten,\nDaß ich so traurig bin;\n"
        "Ein Märchen aus alten Zeiten,\nDas kommt mir nicht aus dem Sinn."
    ),
    "sakura": (
        "さくら さくら\n野山も里も\n見わたす限り\nかすみか雲か\n"
        "朝日ににおう\nさくら さくら\n花ざかり"
    ),
    "moonlight": "床前明月光，\n疑是地上霜。\n举头望明月，\n低头思故乡。",
    "masters": (
        "This is the farmer sowing his corn,\nThat kept the cock that crowed in the morn,\n"
        "That waked the priest all shaven and shorn,\nThat married the man all tattered and torn,\n"
        "That kissed the maiden all forlorn,\nThat milked the cow with the crumpled horn,\n"
        "That tossed the dog,\nThat worried the cat,\nThat killed the rat,\nThat ate the malt\n"
        "That lay in the house that Jack built."
    ),
}
GIFTS: Final = (
    "A partridge in a pear tree.",
    "Two turtle doves, and",
    "Three French hens,",
    "Four calling birds,",
    "Five gold rings,",
    "Six geese a-laying,",
    "Seven swans a-swimming,",
    "Eight maids a-milking,",
    "Nine ladies dancing,",
    "Ten lords a-leaping,",
)
NUMBERS: Final = _words("first second third fourth fifth sixth seventh eighth ninth tenth")

# What the model is asked: a task with {} for the topic, and the profile that is right for it.
TASKS: Final = (
    ("Explain {} to a ten-year-old.", "chat"),
    ("Write a short story about {}.", "creative"),
    ("Give me five tips about {}.", "chat"),
    ("Write a Python function that has to do with {} and explain it.", "code"),
    ("Summarise in three sentences what {} is about.", "summary"),
    ("Write a poem with a refrain about {}.", "creative"),
    ("Write a friendly e-mail to a customer about {}.", "chat"),
    ("Make a Markdown table with facts about {}.", "chat"),
    ("What are the advantages and disadvantages of {}?", "chat"),
    ("List the steps for a beginner who wants to learn about {}.", "chat"),
)
TOPICS: Final = (
    "bees",
    "bicycles",
    "black holes",
    "bread",
    "bridges",
    "chess",
    "coral reefs",
    "databases",
    "earthquakes",
    "gardening",
    "the history of Rome",
    "jazz",
    "libraries",
    "lighthouses",
    "photosynthesis",
    "prime numbers",
    "rivers",
    "sleep",
    "solar panels",
    "tea",
    "trains",
    "volcanoes",
    "weather forecasts",
    "whales",
)
# Openings of texts that a small model, asked for its most likely next word, ends up repeating.
LOOPERS: Final = (
    "The {} and the {} are",
    "I like {}. I like {}.",
    "The best thing about {} is that",
    "Here is a list of words about {} and {}:",
    "{}, {},",
    "Q: What is {}?\nA: It is {}.\nQ:",
    "- {}\n- {}\n-",
    "def {}():\n    return '{}'\n\ndef",
)
