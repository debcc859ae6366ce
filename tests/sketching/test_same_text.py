"""What a reader cannot tell apart is the same to an index with the default settings."""

import unicodedata
from pathlib import Path
from typing import Literal

import pytest

import simindex
from simindex import Config, Sketcher

SCRIPTS = {
    "Latin": "La forêt où l'été s'achève très tôt déjà, et Œuvre de Fiancée à l'office d'Angoulême",
    "Vietnamese": "Văn phòng cảng mở cửa lúc tám giờ và đóng cửa lúc năm giờ chiều",
    "Greek": "Ὁ ἄνθρωπος ᾄδει ἐν τῇ ὁδῷ, καὶ τὴν ᾠδὴν ἀκούομεν",
    "Cyrillic": "Ёжик в тумане, или Й и ещё ѷ рядом с другими буквами",
    "Armenian": "Նավահանգստի գրասենյակը բացվում է առավոտյան և փակվում",
    "Georgian": "ნავსადგურის ოფისი დილით იხსნება და საღამოს იხურება",
    "Hebrew": "מִשְׂרַד הַנָּמָל נִפְתָּח בִּשְׁמוֹנֶה וְנִסְגָּר בְּחָמֵשׁ",
    "Arabic": "يَفْتَحُ مَكْتَبُ المِينَاءِ في السَّاعَةِ الثَّامِنَةِ ويُغْلِقُ أَوَّلًا",
    "Persian": "دفتر بندر هر روز ساعت هشت باز می‌شود و آۂ ساعت پنج",
    "Devanagari": "बंदरगाह का दफ़्तर सुबह आठ बजे खुलता है और क़लम फ़र्श",
    "Bengali": "বন্দরের অফিস সকাল আটটায় খোলে এবং বিকেল পাঁচটায় বন্ধ হয় কো কৌ",
    "Tamil": "துறைமுக அலுவலகம் காலை எட்டு மணிக்குத் திறந்து கொ கோ கௌ",
    "Sinhala": "වරාය කාර්යාලය උදේ අටට විවෘත වන අතර කෝ කෞ කේ",
    "Malayalam": "തുറമുഖ ഓഫീസ് രാവിലെ എട്ടിന് തുറക്കും കൊ കോ കൌ",
    "Tibetan": "གྲུ་ཁའི་ལས་ཁུངས་ཞོགས་པར་སྒོ་འབྱེད་གྷ་ཛྷ་ཱི་ཱུ",
    "Thai": "สำนักงานท่าเรือเปิดเวลาแปดโมงเช้าและปิดห้าโมงเย็น",
    "Lao": "ຫ້ອງການທ່າເຮືອເປີດແປດໂມງເຊົ້າ ຄຳ ແລະ ປິດ",
    "Burmese": "ဆိပ်ကမ်းရုံးသည် နံနက် ရှစ်နာရီတွင် ဖွင့်သည် ဦး",
    "Korean": "항구 사무실은 아침 여덟 시에 열고 저녁 다섯 시에 닫는다",
    "Japanese": "港のオフィスは朝八時にガラッと開いて、夕方五時に閉まるパン屋",
    "Chinese": "港口办公室每天早上八点开门，下午五点关门，但每个月的第一个星期一除外",
}
FORMS: tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...] = ("NFC", "NFD", "NFKC", "NFKD")
UNSEEN = "\u00ad\u200b\u200c\u200d\u2060\ufeff\ufe0f"


def ligated(text: str) -> str:
    return text.replace("ffi", "ﬃ").replace("fi", "ﬁ").replace("և", "եւ").replace("لا", "ﻻ")


def changed(text: str) -> dict[str, str]:
    """Trouble -> the same text with it."""
    found: dict[str, str] = {form: unicodedata.normalize(form, text) for form in FORMS}
    found["upper case"] = found["NFC"].upper()
    found["title case"] = text.title()
    found["full width"] = "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)
    found["ligatures"] = ligated(text)
    for sign in UNSEEN:
        parts = (f"{char}{sign}" if index % 3 == 1 else char for index, char in enumerate(text))
        found[f"U+{ord(sign):04X} in words"] = "".join(parts)
    return found


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_same_text_is_the_same_in_every_form(script: str) -> None:
    text = SCRIPTS[script]
    sketcher = Sketcher()
    first = sketcher.sketch(text)
    for trouble, same in changed(text).items():
        other = sketcher.sketch(same)
        assert (first.jaccard(other), first.hamming(other)) == (1.0, 0), trouble


def test_passages_have_their_places_in_the_original(tmp_path: Path) -> None:
    text = "ＴＨＥ har\u00adbour oﬃce o\u200bpens at eight and cafe\u0301s at nine in the mor\ufeffning"
    stored = "The harbour office opens at eight and cafés at nine in the morning"
    with simindex.open(tmp_path / "i", config=Config(containment=1)) as index:
        index.insert("a", stored)
        (passage,) = index.passages(f"Before it: {text}, and behind", texts={"a": stored})
    assert f"Before it: {text}, and behind"[passage.start : passage.end] == text
    assert stored[passage.stored_start : passage.stored_end] == stored
