"""The picture in ARCHITECTURE.md matches today's imports."""

import house


def test_the_picture_is_drawn_from_the_imports() -> None:
    text = (house.ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    drawn = text.partition(house.BEGIN)[2].partition(house.END)[0]
    assert drawn == house.picture(), "run: python tools/house.py --write"


def test_a_package_is_above_all_that_it_imports() -> None:
    below = house.floors({"roof": {"wall", "floor"}, "wall": {"floor"}, "floor": set()})
    assert below == [["floor"], ["wall"], ["roof"]]


def test_every_package_has_its_paragraph() -> None:
    text = (house.ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert [name for name in house.rooms() if f"**`{name}/`**" not in text] == []
