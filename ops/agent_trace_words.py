"""The words that synthetic traces of agents are made of: one set to tune on, one held out."""

from typing import Final

from msgspec import Struct


class Words(Struct, frozen=True):
    """`files` and `topics` are different things; `questions` are groups of ways to ask one thing,
    `says` of ways to say that it is being asked, by language; `talk` is small talk."""

    seed: int
    folders: tuple[str, ...]
    topics: tuple[str, ...]
    adjectives: tuple[str, ...]
    places: tuple[str, ...]
    services: tuple[str, ...]
    questions: dict[str, tuple[tuple[str, ...], ...]]
    says: dict[str, tuple[str, ...]]
    talk: tuple[str, ...]
    apart: dict[str, tuple[str, ...]]
    steps: dict[str, str]


def _split(words: str) -> tuple[str, ...]:
    return tuple(words.split())


DEV: Final = Words(
    seed=6,
    folders=("src", "docs", "data"),
    topics=_split(
        "ledger invoice tariff freight warehouse customs pallet carrier depot manifest voyage "
        "berth crane container tonnage anchor harbor pilot tugboat draught ballast hull keel "
        "rudder mast compass sextant logbook steward galley cabin purser bosun quay wharf dock "
        "buoy beacon fairway estuary lagoon"
    ),
    adjectives=("northern", "annual", "revised", "coastal", "merged", "signed", "frozen", "draft"),
    places=("Hamburg", "Lisbon", "Osaka", "Valparaíso", "Riga", "Durban"),
    services=("billing", "search", "ingest"),
    questions={
        "en": (
            (
                "harbor fees Hamburg 2023 container ships",
                "container ships harbor fees in Hamburg, 2023",
                "Hamburg harbor: fees for container ships 2023",
                "what are the 2023 harbor fees of Hamburg for container ships",
                "fees container ships pay, Hamburg harbor 2023",
                "2023 container ships fees harbor of Hamburg",
            ),
            (
                "strike dates of the dock workers in Lisbon",
                "dock workers strike Lisbon dates",
                "Lisbon dock strike: dates, workers",
                "when do dock workers strike in Lisbon",
                "dates of the Lisbon strike by dock workers",
                "dock workers in Lisbon on strike, which dates",
            ),
        ),
        "synonyms": (
            (
                "average salary of crane drivers in Hamburg",
                "how much do crane drivers earn in Hamburg",
                "Hamburg crane driver pay statistics",
                "typical income of a crane driver, port of Hamburg",
                "wages crane drivers Hamburg",
                "what are people who drive cranes paid in Hamburg",
            ),
        ),
        "zh": (
            (
                "汉堡港口集装箱费用",
                "集装箱费用汉堡港口",
                "汉堡港口的集装箱费用",
                "汉堡集装箱港口费用",
                "港口集装箱费用在汉堡",
            ),
        ),
        "ru": (
            (
                "портовые сборы Гамбург контейнеры",
                "сборы порта: Гамбург, контейнеры, портовые",
                "контейнеры Гамбург портовые сборы сейчас",
                "какие портовые сборы за контейнеры Гамбург",
                "Гамбург контейнеры: сборы портовые",
            ),
        ),
        "ja": (
            (
                "横浜港の入港料",
                "入港料 横浜港",
                "横浜港、入港料を調べる",
                "入港料は横浜港でいくら",
                "横浜港での入港料",
            ),
        ),
    },
    says={
        "en": (
            "Let me look this up once more with a better query.",
            "The figures must be somewhere; I will search differently.",
            "Perhaps other wording brings the table that I need.",
            "I still lack the numbers, so another attempt is due.",
            "Trying again, now from a different angle.",
            "One more search should settle the matter for good.",
        ),
        "zh": (
            "我再查一次港口费用。",
            "也许换个说法能找到数据。",
            "还缺少数字,继续搜索。",
            "换一个角度再试试看。",
            "最后再搜索一遍资料。",
        ),
        "ru": (
            "Попробую поискать ещё раз иначе.",
            "Данных пока нет, меняю запрос.",
            "Возможно, другие слова помогут.",
            "Нужна таблица; ищу снова.",
            "Последняя попытка найти цифры.",
        ),
        "ja": (
            "もう一度調べます。",
            "別の言い方で検索してみます。",
            "数字がまだ足りません。",
            "視点を変えて探します。",
            "最後にもう一回だけ確認します。",
        ),
    },
    talk=(
        "Good progress so far.",
        "This is an interesting question about shipping.",
        "I should keep the user's deadline in mind.",
        "Ports are busy in autumn, as everybody knows.",
        "Let me think about what matters most here.",
        "The report wants a calm tone and short paragraphs.",
        "Two of the sources were rather old.",
    ),
    apart={
        "zh": ("关税", "合同", "船期", "保险", "仓库", "检疫", "发票", "运费", "港务", "引航"),
        "ja": (
            "関税",
            "契約",
            "船便",
            "保険",
            "倉庫",
            "検疫",
            "請求書",
            "運賃",
            "埠頭",
            "水先案内",
        ),
        "ru": _split("пошлина договор рейс страховка склад карантин счёт фрахт причал лоцман"),
    },
    steps={
        "en": "Now I will read the {adjective} file about {topic} and note what it says of the "
        "schedule, the price, the parties, and the open points.",
        "zh": "现在我来阅读关于{topic}的文件,并记录其中的时间表、价格、各方以及未决事项。",
        "ja": "次に{topic}に関するファイルを読み、日程、価格、当事者、未解決の点を書き留めます。",
        "ru": "Теперь прочту файл о теме «{topic}» и выпишу сроки, цену, стороны и открытое.",
    },
)

HELD_OUT: Final = Words(
    seed=61,
    folders=("lib", "notes", "records"),
    topics=_split(
        "orchard pollen grafting pruning rootstock blossom nectar beehive smoker frame swarm queen "
        "drone propolis varroa mildew canker aphid mulch compost trellis irrigation frost hail "
        "harvest crate cider press barrel vinegar yeast cellar label bottle cork market stall "
        "ladder basket twine shears"
    ),
    adjectives=(
        "early",
        "weekly",
        "handwritten",
        "southern",
        "corrected",
        "shared",
        "old",
        "final",
    ),
    places=("Tartu", "Mendoza", "Nagano", "Asmara", "Bergen", "Quito"),
    services=("gateway", "mailer", "reports"),
    questions={
        "en": (
            (
                "apple scab treatment organic orchards spring",
                "organic orchards: apple scab treatment in spring",
                "spring treatment for apple scab, organic orchards",
                "how do organic orchards treat apple scab in spring",
                "apple scab, spring, treatment in organic orchards",
                "treatment of apple scab by organic orchards each spring",
            ),
            (
                "opening hours of the seed library Tartu",
                "seed library in Tartu: opening hours",
                "Tartu seed library hours of opening",
                "when is the Tartu seed library opening, hours",
                "hours, opening, seed library at Tartu",
                "the seed library of Tartu and its opening hours",
            ),
        ),
        "synonyms": (
            (
                "when do bees begin to swarm in Bergen",
                "swarming season of bees around Bergen",
                "Bergen: typical dates on which bee colonies swarm",
                "start of bee swarms, Bergen region",
                "in which month should Bergen beekeepers expect swarming",
                "first swarm of the year near Bergen for bees",
            ),
        ),
        "zh": (
            (
                "有机果园苹果病害防治",
                "苹果病害有机果园防治",
                "有机果园防治苹果的病害",
                "果园苹果有机病害防治",
                "防治苹果病害的有机果园",
            ),
        ),
        "ru": (
            (
                "парша яблони лечение весной органика",
                "лечение парши: яблони, весной, парша, органика",
                "органика весной лечение парша яблони сада",
                "как весной лечение парша яблони органика",
                "яблони парша органика: лечение весной",
            ),
        ),
        "ja": (
            (
                "りんご黒星病の防除",
                "防除 りんご黒星病",
                "黒星病、りんごの防除",
                "りんごの黒星病を防除する",
                "防除はりんご黒星病でどうする",
            ),
        ),
    },
    says={
        "en": (
            "I want to check that again before writing.",
            "Maybe a rephrased question yields the missing piece.",
            "Nothing conclusive, hence a further lookup.",
            "Going back to the search with fresh words.",
            "The answer has to be in there; asking anew.",
            "Let us see whether this phrasing works.",
        ),
        "zh": (
            "我先再确认一下防治方法。",
            "换句话问可能会有结果。",
            "信息仍不完整,再找找。",
            "重新组织问题继续查询。",
            "试试新的关键词吧。",
        ),
        "ru": (
            "Проверю это снова перед ответом.",
            "Сформулирую вопрос по-другому.",
            "Пока неясно, ищу дальше.",
            "Возвращаюсь к поиску с новыми словами.",
            "Ответ должен там быть.",
        ),
        "ja": (
            "書く前に再確認します。",
            "質問を言い換えてみましょう。",
            "まだ結論が出ません。",
            "新しい言葉で検索に戻ります。",
            "答えはそこにあるはずです。",
        ),
    },
    talk=(
        "The garden year is long.",
        "So far everything looks plausible to me.",
        "A table would suit the reader.",
        "Bees deserve a chapter of their own, I think.",
        "It is worth being careful with dates.",
        "Some growers disagree about this.",
        "I will keep the summary brief.",
    ),
    apart={
        "zh": ("授粉", "修剪", "嫁接", "堆肥", "灌溉", "霜冻", "采收", "蜂箱", "酒窖", "市场"),
        "ja": ("受粉", "剪定", "接ぎ木", "堆肥", "灌漑", "霜害", "収穫", "巣箱", "酒蔵", "市場"),
        "ru": _split("опыление обрезка прививка компост полив заморозок урожай улей погреб рынок"),
    },
    steps={
        "en": "Next comes the {adjective} note on {topic}: I open it and write down dates, "
        "amounts, people, and whatever remains unclear.",
        "zh": "接下来打开关于{topic}的笔记,记下日期、数量、人员以及尚不清楚的地方。",
        "ja": "続いて{topic}のノートを開き、日付、数量、人物、不明な点を書き出します。",
        "ru": "Далее открою заметку «{topic}» и запишу даты, количества, людей и неясные места.",
    },
)
