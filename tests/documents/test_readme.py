from tests.documents import reference
from tests.documents.screenshots import FOLDER, SHOTS


def test_the_tables_are_those_of_the_code() -> None:
    assert reference.README.read_text(encoding="utf-8") == reference.written()


def test_every_picture_is_there_and_no_other() -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == {shot.name for shot in SHOTS}
