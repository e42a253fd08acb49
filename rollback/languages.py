"""Names of languages, for a model that is told which one to answer in."""

import re
from typing import Final

# ISO 639-1 codes, English names.
_LIST: Final = """
af=Afrikaans am=Amharic ar=Arabic az=Azerbaijani be=Belarusian bg=Bulgarian bn=Bengali
bs=Bosnian ca=Catalan cs=Czech cy=Welsh da=Danish de=German el=Greek en=English
eo=Esperanto es=Spanish et=Estonian eu=Basque fa=Persian fi=Finnish fr=French ga=Irish
gl=Galician gu=Gujarati he=Hebrew hi=Hindi hr=Croatian hu=Hungarian hy=Armenian
id=Indonesian is=Icelandic it=Italian ja=Japanese ka=Georgian kk=Kazakh km=Khmer
kn=Kannada ko=Korean ku=Kurdish ky=Kyrgyz la=Latin lo=Lao lt=Lithuanian lv=Latvian
mg=Malagasy mk=Macedonian ml=Malayalam mn=Mongolian mr=Marathi ms=Malay mt=Maltese
my=Burmese nb=Norwegian ne=Nepali nl=Dutch nn=Norwegian no=Norwegian pa=Punjabi pl=Polish
ps=Pashto pt=Portuguese ro=Romanian ru=Russian sd=Sindhi si=Sinhala sk=Slovak
sl=Slovenian so=Somali sq=Albanian sr=Serbian sv=Swedish sw=Swahili ta=Tamil te=Telugu
tg=Tajik th=Thai tk=Turkmen tl=Tagalog tr=Turkish tt=Tatar ug=Uyghur uk=Ukrainian ur=Urdu
uz=Uzbek vi=Vietnamese xh=Xhosa yi=Yiddish yo=Yoruba zh=Chinese zu=Zulu
"""
_NAMES: Final[dict[str, str]] = dict(re.findall(r"(\w+)=(\w+)", _LIST))


def language_name(code: str) -> str:
    """The language's name in English; for one that is not listed, a description by its code."""
    return _NAMES.get(code, f"the language with the ISO 639 code {code}")
