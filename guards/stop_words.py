"""The commonest words that hold sentences together, in languages that set blanks between words.

A word that is one in any of these languages is left out in all of them: what is left of a text
still says what it is about. Written by hand from the closed classes of words: articles, pronouns,
prepositions, conjunctions, forms of to be, to have, to do, and their like.
"""

from typing import Final

_BY_LANGUAGE: Final[dict[str, str]] = {
    "en": "a about after again all also am an and any are as at be because been before being but "
    "by can could did do does doing down during each few for from further had has have "
    "having he her here hers him his how i if in into is it its itself just let ll me more "
    "most my no nor not now of off on once only or other our ours out over own please re s "
    "same shall she should so some such t than that the their theirs them then there these "
    "they this those through to too under until up us ve very was we were what when where "
    "which while who whom why will with would you your yours d m don doesn didn isn aren "
    "wasn weren won",
    "de": "aber alle als am an auch auf aus bei bin bis bist da dann das dass dem den der des "
    "dich die dies diese diesem diesen dieser dieses dir doch du durch ein eine einem einen "
    "einer eines er es euch für hat habe haben hier ich ihm ihn ihnen ihr ihre ihren im ins "
    "ist ja jetzt kann kein keine mein mich mir mit nach nicht noch nun nur oder ob ohne "
    "schon sehr sein seine sich sie sind so um und uns unser vom von vor war waren was weil "
    "wenn wer werde werden wie wieder wir wird wo zu zum zur über",
    "fr": "au aux avec ce ces cet cette ceci cela c d dans de des donc du elle elles en est et eu "
    "il ils j je l la le les leur leurs lui m ma mais me mes moi mon n ne nos notre nous on "
    "ont ou où par pas plus pour qu que qui s sa sans se ses si son sont sur t ta te tes "
    "toi ton tu un une vos votre vous y été être à maintenant",
    "es": "al como con cual cuando de del desde donde e el ella ellas ellos en entre era es esa "
    "ese eso esta este esto está están fue ha han hay la las le les lo los me mi mis muy "
    "más ni no nos o para pero por porque que qué se sea ser si sin sobre son su sus "
    "también te tiene todo tu un una uno unos y ya yo él ahora",
    "pt": "ao aos as até com como da das de dela dele do dos ela elas ele eles em entre era essa "
    "esse esta este eu foi há isso isto já lhe mais mas me meu minha muito na nas nem no "
    "nos não o os ou para pela pelo por qual quando que quem se sem ser seu seus sua suas "
    "são só também te tem um uma você à às é agora",
    "it": "ai al alla alle anche che chi ci come con cui da dal dalla dei del della delle di dove "
    "e ed è era gli ha hanno ho i il in io la le lei li lo loro lui ma mi nel nella non o "
    "per perché più quella quello questa questo se sei si sono su sua sul sulla suo ti tra "
    "tu un una uno vi",
    "nl": "aan al als bij dan dat de der deze die dit door een en er ge had heb heeft het hij hoe "
    "hun ik in is je kan maar me meer met mij mijn na naar niet nog nu of om omdat ons ook "
    "op over te tot uit u van veel voor was wat we wel werd wie wij wordt ze zich zij zijn "
    "zo",
    "sv": "att av de dem den det du där efter ej eller en ett för från han har hon hur här i inte "
    "jag kan man med men min mot nu när och om oss på sig sin som så till upp ut var vi vid "
    "är",
    "pl": "aby ale bo by być co czy dla do gdy go i ich jak jako jego jej jest już ja ma mi mnie "
    "może na nad nie o od on ona oni po pod przez przy się są ta tak te ten to tu ty w we z "
    "za ze że teraz",
    "ru": "а без бы был была были было быть в вам вас весь во вот все всё вы где да для до его ее "
    "её если есть еще ещё же за здесь и из или им их к как когда кто ли мне мы на над нам "
    "нас не него нет ни но ну о об он она они оно от по под при с со снова так также там те "
    "теперь то тоже только ты у уже что чтобы эта эти это этот этого этой я сейчас",
    "uk": "а або але б був була було бути в ви від він вона вони воно все для до є з за зараз і "
    "із її його й їх коли ми на не ні о по при про та так те тепер ти то тут у це цей ця чи "
    "що щоб я як",
    "tr": "ama bana ben bir biz bu bunu çok da daha de diye en gibi hem için ile ise ki mi mı ne "
    "o olan olarak sen siz şimdi şu ve veya ya",
    "ar": "في من على إلى عن مع هذا هذه ذلك التي الذي أن إن كان كانت هو هي هم أنا "
    "نحن ما لا لم لن قد ثم أو و كل بعد قبل عند الآن",
    "he": "של על את עם אל מן זה זו זאת הוא היא הם אני אנחנו לא כן או גם כי אם אבל "
    "יש אין מה עכשיו כל",
    "hi": "का की के को में से पर और है हैं था थी थे यह वह ये वे मैं हम तुम आप "
    "नहीं भी तो ही एक कि जो अब लिए कर रहा रहे रही हूँ",
    "ko": "이 그 저 것 수 등 및 더 또 또는 그리고 하지만 나는 저는 지금 다시 있는 있습니다 "
    "합니다 하는 을 를 은 는 가",
}

STOP_WORDS: Final = frozenset(word for words in _BY_LANGUAGE.values() for word in words.split())
"""All of them, folded."""

# Han characters and kana that are grammar more than matter: two of them side by side say nothing.
PARTICLES: Final = frozenset(
    "的了是在和也就都而及与或之于不我你他她它们这那有个上下吧呢吗啊把被从到对为以再又还会要将让请现"
    "はがをにでとものへやかねよだですまたしてるれなりさいうこそどら"
)

_NEGATIONS: Final = (
    "no not none nothing nowhere never without zero empty null nil missing unavailable failed "
    "kein keine keinen keiner nicht nichts ohne leer aucun aucune rien pas vide sans ningún "
    "ninguna ninguno nada sin vacío nenhum nenhuma não sem vazio nessun nessuno nessuna niente "
    "non senza vuoto geen niet niets zonder leeg ingen inga inte inget tom nie nic brak żaden "
    "нет не ничего ни без пусто немає нічого yok değil hiçbir boş لا لم لن ليس بدون אין לא ללא "
    "नहीं कोई 없음 없습니다 없다 없어요 못했습니다"
)
NEGATIONS: Final = frozenset(_NEGATIONS.split())
"""Words by which a result says that there is nothing to say, folded."""

UNSPACED_NEGATIONS: Final = ("没", "無", "无", "未", "空", "不存在", "ません", "なし", "ない", "ไม่")
"""The same where no blanks are set: parts of a text."""
