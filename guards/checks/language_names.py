"""Languages as the detector knows them: its codes, which it mistakes for one another, and the names
by which prompts speak of them."""

from functools import cache
from typing import Final

import regex

# The codes of the detector's model, lid.176 of fastText (Joulin and others, "Bag of tricks for
# efficient text classification", 2017).
_CODES: Final = (
    "af als am an ar arz as ast av az azb ba bar bcl be bg bh bn bo bpy br bs bxr ca cbk "
    "ce ceb ckb co cs cv cy da de diq dsb dty dv el eml en eo es et eu fa fi fr frr fy ga "
    "gd gl gn gom gu gv he hi hif hr hsb ht hu hy ia id ie ilo io is it ja jbo jv ka kk "
    "km kn ko krc ku kv kw ky la lb lez li lmo lo lrc lt lv mai mg mhr min mk ml mn mr "
    "mrj ms mt mwl my myv mzn nah nap nds ne new nl nn no oc or os pa pam pfl pl pms pnb "
    "ps pt qu rm ro ru rue sa sah sc scn sco sd sh si sk sl so sq sr su sv sw ta te tg th "
    "tk tl tr tt tyv ug uk ur uz vec vep vi vls vo wa war wuu xal xmf yi yo yue zh"
)
KNOWN: Final = frozenset(_CODES.split())

# Codes of two letters of ISO 639-1 beside these, of languages that nothing here knows.
_OTHERS: Final = (
    "aa ab ae ak ay bi bm ch cr cu dz ee ff fj fo ha ho hz ig ii ik iu ki kg kj kl kr ks lg ln lu "
    "mh na nd ng nr nv ny oj om pi rn rw se sg sm sn ss st tn to ts tw ty ve xh za zu bh ti"
)

# Codes that mean the same to the detector.
_ALIASES: Final = {
    "nb": "no",
    "nob": "no",
    "nno": "nn",
    "fil": "tl",
    "tgl": "tl",
    "iw": "he",
    "in": "id",
    "ji": "yi",
    "cmn": "zh",
    "zho": "zh",
    "eng": "en",
    "deu": "de",
    "fra": "fr",
    "spa": "es",
    "por": "pt",
    "ita": "it",
    "nld": "nl",
    "pol": "pl",
    "rus": "ru",
    "ukr": "uk",
    "jpn": "ja",
    "kor": "ko",
    "ara": "ar",
    "hin": "hi",
    "tur": "tr",
    "vie": "vi",
    "ces": "cs",
    "slk": "sk",
    "swe": "sv",
    "dan": "da",
    "fin": "fi",
    "ell": "el",
    "heb": "he",
    "hun": "hu",
    "ron": "ro",
    "bul": "bg",
    "hrv": "hr",
    "srp": "sr",
    "ind": "id",
    "msa": "ms",
    "tha": "th",
}

# Languages that the detector takes for one another, and whose texts people would, too. Of 6,125
# texts in 92 locales 1.6% got another code; outside these groups none got one with more than 0.28.
_GROUPS: Final = tuple(
    frozenset(group.split())
    for group in (
        "no nn da",
        "hr bs sr sh",
        "mk bg",
        "id ms min jv su",
        "cs sk",
        "zh wuu yue",
        "es gl ast an",
        "pt gl mwl",
        "ca oc",
        "it scn vec lmo nap pms eml sc co",
        "fr oc wa",
        "de als bar nds lb pfl",
        "nl af li vls fy nds",
        "en sco",
        "ru rue",
        "uk rue",
        "tr az tk",
        "tt ba kk ky",
        "ar arz",
        "fa mzn lrc",
        "azb az",
        "ur pnb",
        "ckb ku fa",
        "hi bh mai sa gom hif",
        "mr gom sa",
        "ne dty sa",
        "bn as bpy",
        "ga gd gv",
        "cy br kw",
        "eo io ia ie vo",
        "tl ceb ilo war pam bcl",
        "fi vep",
        "he yi",
    )
)
# Small languages that it takes for a large neighbour; not so the other way round.
_TAKEN_FOR: Final = {
    "hsb": "dsb cs pl sl",
    "dsb": "hsb cs pl sl",
    "ia": "it es fr pt la",
    "ht": "fr oc",
    "oc": "fr es",
    "wa": "fr",
    "uz": "tr az tg ru",
    "tg": "ru fa bg",
    "sh": "sl",
    "os": "ru",
    "ba": "ru",
    "cv": "ru",
    "kv": "ru",
    "mhr": "ru",
    "mrj": "ru",
    "myv": "ru",
    "sah": "ru",
    "ce": "ru",
    "av": "ru",
    "tyv": "ru",
    "mt": "it en",
    "lb": "de fr",
    "gn": "es",
    "qu": "es",
    "nah": "es",
    "mg": "fr",
}

# As prompts name them: in English, by themselves, and in some others' words; folded, whole words.
_NAMES: Final = {
    "ar": "arabic arabisch arabe árabe العربية عربي",
    "bg": "bulgarian български",
    "ca": "catalan català",
    "cs": "czech čeština česky tschechisch",
    "da": "danish dansk dänisch",
    "de": "german deutsch deutsche deutscher deutschen allemand alemán aleman alemão tedesco "
    "tysk tyska duits niemiecki niemiecku немецкий немецком немецкого",
    "el": "greek ελληνικά griechisch",
    "en": "english englisch englische englischen anglais anglaise inglés ingles inglese inglês "
    "engelsk engelska engels angielski angielsku английский английском английского "
    "англійською anglicky angol",
    "es": "spanish spanisch espagnol español espanol castellano castilian spagnolo espanhol "
    "spansk spanska испанский испанском",
    "fa": "persian farsi فارسی",
    "fi": "finnish suomi suomeksi finnisch",
    "fr": "french französisch franzosisch français francais française francés francese francês "
    "fransk franska французский французском francuski",
    "he": "hebrew עברית",
    "hi": "hindi हिन्दी हिंदी",
    "hr": "croatian hrvatski kroatisch",
    "hu": "hungarian magyar magyarul ungarisch",
    "id": "indonesian indonesia",
    "it": "italian italienisch italien italiano italienska итальянский",
    "ja": "japanese japanisch japonais japonés giapponese японский",
    "ko": "korean koreanisch coréen coreano корейский",
    "nl": "dutch nederlands nederlandse niederländisch néerlandais",
    "no": "norwegian norsk nynorsk bokmål norwegisch",
    "pl": "polish polnisch polonais polaco polski polsku польский",
    "pt": "portuguese portugiesisch portugais portugués português",
    "ro": "romanian română rumänisch",
    "ru": "russian russisch russe ruso russo rosyjski русский русском русского російською",
    "sr": "serbian српски srpski serbisch",
    "sv": "swedish svenska schwedisch",
    "th": "thai",
    "tr": "turkish türkçe türkisch turc turco турецкий",
    "uk": "ukrainian українська українською ukrainisch",
    "vi": "vietnamese vietnamesisch",
    "zh": "chinese mandarin putonghua cantonese chinois chinesisch chino",
    "": "afrikaans albanian shqip amharic armenian azerbaijani basque euskara belarusian "
    "bengali bangla bosnian bosanski breton burmese esperanto estonian eesti filipino "
    "tagalog galician galego georgian ქართული gujarati hausa icelandic íslenska igbo "
    "irish gaelic gaeilge javanese kannada kazakh khmer kurdish lao latin latein latvian "
    "latviešu lithuanian lietuvių macedonian македонски malay melayu malayalam maltese "
    "maori marathi मराठी mongolian nepali occitan odia pashto punjabi sanskrit sinhala "
    "slovak slovenčina slovenian slovenščina somali swahili kiswahili tamil தமிழ் telugu "
    "tibetan turkmen urdu اردو uyghur uzbek welsh cymraeg yiddish yoruba zulu",
}
_GENERAL: Final = (
    "bilingual multilingual language languages tongue dialect sprache sprachen langue "
    "langues idioma idiomas lingua lingue língua línguas språk taal język języka jezik "
    "jazyk язык языке языка мова мовою"
)
_STEMS: Final = (
    "translat übersetz ubersetz tradu перевод перевед перевест переклад переклас tłumacz "
    "przetłumacz přelož překlad prelož oversett oversæt översätt vertaal vertal fordít "
    "käännä terjemah locali[sz] lokalisier"
)
# In scripts that set no blanks, or have many endings.
_UNSPACED: Final = (
    "翻译 翻譯 翻訳 译成 譯成 訳して 英文 中文 日文 英语 英語 汉语 漢語 日语 日本語 韩语 "
    "韓国語 法语 德语 俄语 西班牙语 语言 語言 言語 번역 영어 한국어 일본어 중국어 언어 "
    "แปล ภาษา ترجم الإنجليزية अनुवाद अंग्रेज़ी अंग्रेजी תרגם אנגלית μετάφρα αγγλικά"
)


def _pattern(names: str) -> regex.Pattern[str]:
    whole = "|".join(sorted(names.split(), key=len, reverse=True))
    stems, unspaced = "|".join(_STEMS.split()), "|".join(_UNSPACED.split())
    return regex.compile(rf"\b(?:(?:{whole})\b|{stems})|{unspaced}", regex.IGNORECASE)


@cache
def mentions() -> regex.Pattern[str]:
    """Finds where a prompt speaks of a language, or of translating."""
    return _pattern(" ".join((*_NAMES.values(), _GENERAL)))


@cache
def mentions_other(language: str) -> regex.Pattern[str]:
    """Finds where a prompt speaks of another language than this one, or of translating."""
    return _pattern(" ".join(names for code, names in _NAMES.items() if code != language))


def code_of(language: str) -> str:
    """The detector's code for an ISO 639 code; the same where it has no other."""
    return _ALIASES.get(language, language)


def language_problem(language: str) -> str | None:
    """Why nothing can be in this language, or None. For the place where jobs come in, too: with a
    code that there is not, no text would ever be looked at. A language that the detector does not
    know is none the less one; codes of three letters are too many to be looked up."""
    if len(language) > 2 or {language, code_of(language)} & KNOWN.union(_OTHERS.split()):
        return None
    return f"{language} is no code of ISO 639, such as en, de, ja, zh"


@cache
def near(language: str) -> frozenset[str]:
    """The codes that a text in this language may well get, itself among them."""
    taken_for = frozenset(_TAKEN_FOR.get(language, "").split())
    return frozenset({language}).union(
        taken_for, *(group for group in _GROUPS if language in group)
    )
