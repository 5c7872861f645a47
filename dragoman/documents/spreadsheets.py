"""Find the texts that a spreadsheet calculates with, which a translation must leave.

`=IF(B2="Open",1,0)` is 0 once B2 says "Offen". A cell keeps its text

1. if the text is a string in a formula, a validation list, a filter or a pivot table (ignoring
   case), or the name of a table's column;
2. if a formula refers to the cell and may depend on its letters: it compares, or calls a function
   that is not in `_INDIFFERENT`. A formula that only passes texts on, such as =A1&B1, counts if
   its own cell is referred to in this way.

Both rules leave too much rather than too little. The same text is left everywhere, so that cells
that are compared with each other stay equal. Rows and columns count from 0.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.parsers import expat

from dragoman.documents.document import DocumentError, decode_text
from dragoman.documents.segment import word_set
from dragoman.storage.safe_xml import HostileXmlError, open_parser, parse

SPREADSHEETS = word_set("xlsx ods")
COMPARED = "a formula, list, filter or pivot table compares with it"
IN_FORMULA = "it is inside a formula"
_MOST_COLUMNS = 16_384
_END = 2**20  # rows of a sheet

# Functions whose result depends on numbers, or on whether there is a text, but not on its letters;
# and functions that pass texts on. TEXT has a format, and YEAR may read "5 May 2020".
_INDIFFERENT = word_set(
    "ABS AGGREGATE AND AVERAGE AVERAGEA CEILING CHOOSE CLEAN COLUMN COLUMNS CONCAT "
    "CONCATENATE COUNT COUNTA COUNTBLANK EXP FLOOR FV HYPERLINK IF IFERROR IFNA INDEX INT IRR "
    "ISBLANK ISERR ISERROR ISNA ISNONTEXT ISNUMBER ISTEXT LARGE LN LOG LOG10 LOWER MAX MAXA "
    "MEDIAN MIN MINA MOD N NA NOT NOW NPV OR PI PMT POWER PRODUCT PROPER PV RAND RANDBETWEEN "
    "RANK RATE ROUND ROUNDDOWN ROUNDUP ROW ROWS SIGN SMALL SQRT STDEV STDEV.P STDEV.S STDEVP "
    "SUBTOTAL SUM SUMPRODUCT SUMSQ T TEXTJOIN TODAY TRANSPOSE TRIM TRUNC UPPER VAR VAR.P "
    "VAR.S VARP XOR"
)
_TOKEN = re.compile(
    r'"(?P<text>(?:[^"]++|"")*+)"'
    r"|(?:(?P<sheet>'(?:[^']|''){1,31}+'|(?<![\w.])[\w.]++(?::[\w.]++)?+)!)?+"
    r"(?:(?P<cell>(\$?)([A-Za-z]{1,3})(\$?)(\d{1,7})(?::(?:'(?:[^']|''){1,31}+'!|[\w.]++!)?+"
    r"(\$?)([A-Za-z]{1,3})(\$?)(\d{1,7}))?+)(?![\w(.!])"
    r"|(?P<columns>\$?([A-Za-z]{1,3}):\$?([A-Za-z]{1,3}))(?![\w(.!])"
    r"|(?P<rows>\$?(\d{1,7}):\$?(\d{1,7}))(?![\w(.!]))"
    r"|(?P<function>[^\W\d][\w.]*+)\("
    r"|(?P<number>\d++(?:\.\d++)?+)"
    r"|(?P<name>[^\W\d][\w.\\]*+)"
    r"|\[[@#]?(?P<column>[^\[\]@#][^\[\]]*+)\]"
    r"|(?P<comparison><>|[<>]=?|=)"
    r"|(?P<other>\S)"
)
# OpenDocument's references: [.A1], [$'My sheet'.$A$1:.B2].
_ODF_REFERENCE = re.compile(
    r"\[\$?(?P<sheet>'(?:[^']++|'')++'|[^.'\[\]]*+)\.(?P<start>[^:\[\].]++)"
    r"(?::(?:\$?(?:'(?:[^']++|'')++'|[^.'\[\]]*+))\.(?P<end>[^\[\].]++))?+\]"
)
_TEXT_FORMAT = re.compile(r"[\W\d_dmyhsDMYHS]*+")


class Area(NamedTuple):
    sheet: str
    top: int
    left: int
    bottom: int
    right: int


class CellFormula(NamedTuple):
    """A formula, the cells that it is in or applies to, and what else is known about it.

    `is_test`: it compares these cells, as a validation list or a conditional format does.
    """

    text: str
    area: Area
    is_cell: bool = True
    is_test: bool = False


@dataclass
class Workbook:
    """What is needed of a workbook: its formulas, its text cells, and names for areas.

    `cells` has, for each sheet and column, first row, last row and text of each text cell.
    `strings` are compared with wherever they occur; a filter may have wildcards.
    """

    formulas: list[CellFormula] = field(default_factory=list)
    cells: dict[tuple[str, int], list[tuple[int, int, str]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    names: dict[str, str] = field(default_factory=dict)  # of formulas and areas
    areas: dict[str, list[Area]] = field(default_factory=lambda: defaultdict(list))  # of tables
    strings: set[str] = field(default_factory=set)
    filters: set[str] = field(default_factory=set)


class CalculatedTexts(NamedTuple):
    """The texts to leave, folded; the cells that have one; and the texts inside formulas."""

    texts: frozenset[str]
    cells: frozenset[tuple[str, int, int, str]]
    in_formulas: tuple[str, ...]

    def has(self, text: str) -> bool:
        return bool(self.texts) and folded(text) in self.texts


def folded(text: str) -> str:
    """Return a text as spreadsheets compare it: without regard to case."""
    return " ".join(text.split()).casefold()


def calculated_texts(members: Mapping[str, bytes]) -> CalculatedTexts:
    """Return the texts that a workbook, given as the members of its archive, calculates with."""
    book = Workbook()
    if b"<office:spreadsheet" in members.get("content.xml", b""):
        _parse(members["content.xml"], _OdsReader(book))
    elif any(name.startswith("xl/") and _CALCULATES.search(raw) for name, raw in members.items()):
        _read_excel(members, book)
    return _Analysis(book).result()


class _Parsed(NamedTuple):
    """What a formula depends on, with all names in it resolved."""

    depends: bool  # on the letters of texts
    areas: dict[Area, None]  # in order, each once
    strings: dict[str, None]


class _Analysis:
    """Marks the cells whose letters matter."""

    def __init__(self, book: Workbook):
        self._book = book
        # The used rows of each column of a sheet.
        self._rows: dict[tuple[str, int], int] = defaultdict(int)
        for place, cells in book.cells.items():
            self._rows[place] = max(last for _, last, _ in cells) + 1
        for _, (sheet, _, left, bottom, right), is_cell, _ in book.formulas:
            for column in range(left, min(right, _MOST_COLUMNS) + 1) if is_cell else ():
                self._rows[sheet, column] = max(self._rows[sheet, column], min(bottom, _END) + 1)
        self._last: dict[str, int] = defaultdict(int)  # column of a sheet
        for sheet, column in self._rows:
            self._last[sheet] = max(self._last[sheet], column)
        # A byte for each of these rows: 1 if the letters of the cell matter.
        self._marks: dict[tuple[str, int], bytearray] = {}
        self._marked: set[Area] = set()
        self._names: dict[str, _Parsed] = {}

    def result(self) -> CalculatedTexts:
        book = self._book
        strings: dict[str, None] = {}
        waiting: list[tuple[Area, Iterable[Area]]] = []
        for formula in book.formulas:
            parsed = self._parsed(formula.text, formula.area)
            strings |= parsed.strings
            if formula.is_test:
                # Excel has a list of values in one string, with commas.
                book.strings.update(parsed.strings)
                book.strings.update(part for s in parsed.strings for part in s.split(","))
                if parsed.areas:
                    self._mark([formula.area])
            if parsed.depends or formula.is_test:
                self._mark(parsed.areas)
            elif formula.is_cell and parsed.areas:
                waiting.append((formula.area, parsed.areas))
        self._follow(waiting)
        book.strings |= book.filters
        strings |= dict.fromkeys(book.strings)
        cells = [*self._compared_cells(strings)]
        texts = frozenset(text for *_, text in cells)
        shown = tuple(
            s for s in strings
            if s not in book.strings and folded(s) not in texts and not _TEXT_FORMAT.fullmatch(s)
        )  # fmt: skip
        return CalculatedTexts(texts | {folded(s) for s in strings}, frozenset(cells), shown)

    def _follow(self, waiting: list[tuple[Area, Iterable[Area]]]) -> None:
        """Mark what the formulas in marked cells pass on."""
        before = -1
        # Formulas mostly refer to cells above, so in reverse order one round is usually enough.
        while waiting and len(self._marked) != before:
            before = len(self._marked)
            rest = []
            for area, areas in reversed(waiting):
                if self._is_marked(area):
                    self._mark(areas)
                else:
                    rest.append((area, areas))
            waiting = rest[::-1]

    def _compared_cells(self, strings: Iterable[str]) -> Iterator[tuple[str, int, int, str]]:
        equal = {folded(s.lstrip("<>=")) for s in strings} | {folded(s) for s in strings}
        # A filter for "*open*" or "op?n" matches what contains the words between the wildcards.
        patterns = [
            [part for part in re.split(r"[*?~]", folded(s)) if part]
            for s in self._book.filters
            if "*" in s or "?" in s
        ]
        patterns = [parts for parts in patterns if parts]
        for (sheet, column), cells in self._book.cells.items():
            for row, last, raw in cells:
                text = folded(raw)
                if (
                    text in equal
                    or self._is_marked(Area(sheet, row, column, last, column))
                    or any(all(part in text for part in parts) for parts in patterns)
                ):
                    yield sheet, row, column, text

    def _mark(self, areas: Iterable[Area]) -> None:
        for area in areas:
            if area in self._marked:
                continue
            self._marked.add(area)
            # An empty name means all sheets.
            for sheet in [area.sheet] if area.sheet else [*self._last]:
                for column in range(area.left, min(area.right, self._last[sheet]) + 1):
                    rows = self._rows.get((sheet, column), 0)
                    bottom = min(area.bottom + 1, rows)
                    if area.top < bottom:
                        marks = self._marks.setdefault((sheet, column), bytearray(rows))
                        marks[area.top : bottom] = b"\1" * (bottom - area.top)

    def _is_marked(self, area: Area) -> bool:
        return any(
            1 in self._marks.get((area.sheet, column), b"")[area.top : area.bottom + 1]
            for column in range(area.left, min(area.right, self._last[area.sheet]) + 1)
        )

    def _named(self, name: str) -> _Parsed:
        """Return what is known about a named formula; of a name inside its own formula, nothing."""
        if name not in self._names:
            self._names[name] = _Parsed(False, {}, {})
            text = self._book.names.get(name, "")
            self._names[name] = self._parsed(text, Area("", 0, 0, 0, 0))
        return self._names[name]

    def _parsed(self, text: str, area: Area) -> _Parsed:
        depends = False
        areas: dict[Area, None] = {}
        strings: dict[str, None] = {}
        tokens = [*_TOKEN.finditer(text)]
        for number, token in enumerate(tokens):
            match token.lastgroup or "":
                case "text":
                    string = token["text"].replace('""', '"')
                    if any(map(str.isalpha, string)):
                        strings[string] = None
                case "function":
                    name = token["function"].upper()
                    depends |= name.removeprefix("_XLFN.") not in _INDIFFERENT
                case "comparison":
                    near = tokens[max(number - 1, 0) : number + 2 : 2]
                    # Neither a number nor an empty text depends on the letters of the other side.
                    depends |= not any(t["number"] or t["text"] == "" for t in near)
                case "name":
                    name = token["name"].casefold()
                    # Sales[Status] is a column of a table, Sales the table.
                    if not text.startswith("[", token.end()) or "]:[" in text:
                        areas |= dict.fromkeys(self._book.areas.get(name, []))
                    named = self._named(name)
                    depends |= named.depends
                    areas |= named.areas
                    strings |= named.strings
                case "column":
                    column = token["column"].strip().casefold()
                    areas |= dict.fromkeys(self._book.areas.get(column, []))
            if reference := _area(token, area):
                areas[reference] = None
        return _Parsed(depends, areas, strings)


def _area(token: re.Match[str], own: Area) -> Area | None:
    """Return the area of a reference, for all cells that the formula is in."""
    sheet = token["sheet"] or ""
    if sheet.startswith("'"):
        sheet = sheet[1:-1].replace("''", "'")
    elif ":" in sheet:  # several sheets
        sheet = ""
    if not token["sheet"]:
        sheet = own.sheet
    sheet = sheet.casefold()
    if token["columns"]:
        left, right = sorted(map(_column_number, re.findall("[A-Za-z]+", token["columns"])))
        return Area(sheet, 0, left, _END, right)
    if token["rows"]:
        top, bottom = sorted(int(row) - 1 for row in re.findall(r"\d+", token["rows"]))
        return Area(sheet, top, 0, bottom, _MOST_COLUMNS)
    if not token["cell"]:
        return None
    corners = re.findall(r"(\$?)([A-Za-z]{1,3})(\$?)(\d{1,7})(?![\w!'])", token["cell"])
    # A relative reference moves with the cells of the formula.
    down, across = own.bottom - own.top, own.right - own.left
    columns = [_column_number(letters) for _, letters, _, _ in corners]
    rows = [int(row) - 1 for *_, row in corners]
    right = max(columns[i] + (0 if dollar else across) for i, (dollar, *_) in enumerate(corners))
    bottom = max(rows[i] + (0 if dollar else down) for i, (_, _, dollar, _) in enumerate(corners))
    return Area(sheet, max(min(rows), 0), min(columns), bottom, right)


def _column_number(letters: str) -> int:
    """Return the number of a column.

    >>> _column_number("A"), _column_number("AB")
    (0, 27)
    """
    number = 0
    for letter in letters.upper():
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def _area_of(reference: str, sheet: str) -> Area | None:
    """Return the area of a reference by itself, such as A1:B3."""
    token = _TOKEN.match(reference)
    return _area(token, Area(sheet, 0, 0, 0, 0)) if token else None


def _parse(content: bytes, reader: "_ExcelReader | _OdsReader") -> None:
    """Let a reader's `start`, `text` and `end` read XML, with names that have no prefix."""
    parser = open_parser("utf-8")
    parser.StartElementHandler = lambda name, attributes: reader.start(
        name.rpartition(":")[2],
        {key.rpartition(":")[2]: value for key, value in attributes.items()},
    )
    parser.EndElementHandler = lambda name: reader.end(name.rpartition(":")[2])
    parser.CharacterDataHandler = reader.text.append
    parser.buffer_text = True
    text, _ = decode_text(content, "latin-1")
    try:
        parse(parser, text.encode("utf-8", "surrogatepass"))
    except HostileXmlError as error:
        raise DocumentError(f"{error}.") from None
    except expat.ExpatError as error:
        raise DocumentError(f"not well-formed XML ({error}).") from None


# Office Open XML

# Members with the names of columns and items of tables and pivot tables.
_TABLE = re.compile(r"xl/tables/[^/]+\.xml|xl/pivotCache/[^/]+\.xml")
CALCULATION = re.compile(rf"{_TABLE.pattern}|xl/workbook\.xml|xl/(?:worksheets/)?_rels/[^/]+\.rels")
# Without one of these, a workbook calculates with no texts.
_CALCULATES = re.compile(
    rb"<(?:\w+:)?(?:f|formula\d?|filter|customFilter|tableColumn|cacheField)[\s>]"
)
_RELATION = re.compile(r"<(?:\w+:)?Relationship\s[^<>]*>")
_ATTRIBUTE = re.compile(r"""\s(?:\w+:)?(\w+)=["']([^"']*)["']""")


def _read_excel(members: Mapping[str, bytes], book: Workbook) -> None:
    workbook = _ExcelReader(book)
    _parse(members.get("xl/workbook.xml", b"<workbook/>"), workbook)
    targets = dict(_relations(members, "xl/_rels/workbook.xml.rels"))
    sheets = {
        targets[relation]: name.casefold()
        for name, relation in workbook.sheets
        if relation in targets
    }
    if "xl/sharedStrings.xml" in members:
        _parse(members["xl/sharedStrings.xml"], workbook)
    of_table = {
        target: sheet
        for member, sheet in sheets.items()
        for _, target in _relations(members, "/_rels/".join(member.rsplit("/", 1)) + ".rels")
    }
    for member, content in members.items():
        if member in sheets or _TABLE.fullmatch(member):
            sheet = sheets.get(member) or of_table.get(member, "")
            _parse(content, _ExcelReader(book, sheet, workbook.shared))


def _relations(members: Mapping[str, bytes], name: str) -> Iterator[tuple[str, str]]:
    """Yield the id and the target of each relation that a member states."""
    for relation in _RELATION.finditer(members.get(name, b"").decode("utf-8", "replace")):
        attributes = dict(_ATTRIBUTE.findall(relation[0]))
        target = attributes.get("Target", "")
        # "../tables/table1.xml" counts from a sheet, "worksheets/sheet1.xml" from the workbook.
        target = (
            target.lstrip("/") if target.startswith("/") else f"xl/{target.removeprefix('../')}"
        )
        yield attributes.get("Id", ""), target


class _ExcelReader:
    """Reads a workbook, a sheet, a table, a pivot cache, or the strings that sheets share."""

    def __init__(self, book: Workbook, sheet: str = "", shared: list[str] | None = None):
        self._book, self._sheet = book, sheet
        self.shared = [] if shared is None else shared
        self.sheets: list[tuple[str, str]] = []  # name and relation
        self.text: list[str] = []
        self._inside: list[str] = []  # pieces of the text of a cell or shared string
        self._is_phonetic = self._is_extension = self._is_test = False
        self._cell = self._area = Area(sheet, 0, -1, 0, -1)
        self._type = self._name = ""
        self._column = 0
        self._extensions: list[tuple[str, bool]] = []  # formulas whose cells are named after them

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.text.clear()
        match name:
            case "c":
                after = self._cell._replace(left=self._cell.left + 1, right=self._cell.right + 1)
                self._cell = _area_of(attributes.get("r", ""), self._sheet) or after
                self._type = attributes.get("t", "")
                self._inside.clear()
            case "si":
                self._inside.clear()
            case "rPh":
                self._is_phonetic = True
            case "extLst":
                self._is_extension = True
            case "f":
                self._area = _area_of(attributes.get("ref", ""), self._sheet) or self._cell
            case "sheet":
                self.sheets.append((attributes.get("name", ""), attributes.get("id", "")))
            case "definedName":
                self._name = attributes.get("name", "").casefold()
            case "dataValidation":
                self._areas(attributes.get("sqref", ""))
                self._is_test = attributes.get("type") == "list"
            case "conditionalFormatting":
                self._areas(attributes.get("sqref", ""))
            case "cfRule":
                self._is_test = attributes.get("type") == "cellIs"
            case "filter" | "customFilter":
                self._book.filters.add(attributes.get("val", ""))
            case "s" if "v" in attributes:  # an item of a pivot table
                self._book.strings.add(attributes["v"])
            case "cacheField":
                self._book.strings.add(attributes.get("name", ""))
            case "table":
                self._area = _area_of(attributes.get("ref", ""), self._sheet) or self._area
                self._column = self._area.left
                for key in ("name", "displayName"):
                    self._book.areas[attributes.get(key, "").casefold()].append(self._area)
            case "tableColumn":
                # Excel calls a workbook damaged if this name and its cell differ.
                self._book.strings.add(attributes.get("name", ""))
                column = self._area._replace(left=self._column, right=self._column)
                self._book.areas[attributes.get("name", "").casefold()].append(column)
                self._column += 1

    def end(self, name: str) -> None:
        text = "".join(self.text)
        self.text.clear()
        match name:
            case "t" if not self._is_phonetic:
                self._inside.append(text)
            case "rPh":
                self._is_phonetic = False
            case "extLst":
                self._is_extension = False
            case "si":
                self.shared.append("".join(self._inside))
            case "v" if self._type == "s" and text.isdigit() and int(text) < len(self.shared):
                self._add(self.shared[int(text)])
            case "is":
                self._add("".join(self._inside))
            case "f" if self._is_extension:
                self._extensions.append((text, self._is_test))
            case "sqref":
                self._areas(text)
                for formula, is_test in self._extensions:
                    self._book.formulas.append(CellFormula(formula, self._area, False, is_test))
                self._extensions.clear()
            case "f" if text:
                self._book.formulas.append(CellFormula(text, self._area))
            case "formula" | "formula1" | "formula2" if text:
                self._book.formulas.append(CellFormula(text, self._area, False, self._is_test))
            case "definedName" if not self._name.startswith("_xlnm."):
                self._book.names[self._name] = text

    def _add(self, text: str) -> None:
        row, column = self._cell.top, self._cell.left
        self._book.cells[self._sheet, column].append((row, row, text))

    def _areas(self, references: str) -> None:
        """Remember the cells of a validation or format; of several areas, the one around all."""
        areas = [area for one in references.split() if (area := _area_of(one, self._sheet))]
        if areas:
            self._area = Area(
                self._sheet,
                min(area.top for area in areas),
                min(area.left for area in areas),
                max(area.bottom for area in areas),
                max(area.right for area in areas),
            )


# OpenDocument


class _OdsReader:
    """Reads the content of an OpenDocument spreadsheet."""

    def __init__(self, book: Workbook):
        self._book = book
        self.text: list[str] = []
        self._sheet = ""
        self._row = self._column = 0
        self._rows = self._columns = 1  # how often the row and the cell are repeated
        self._is_note = False
        self._validated: dict[str, list[Area]] = defaultdict(list)
        self._conditions: list[tuple[str, str]] = []  # validations: name and condition
        self._format = Area("", 0, 0, 0, 0)  # the cells of a conditional format

    def start(self, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "table":
                self._sheet, self._row = attributes.get("name", "").casefold(), 0
            case "table-row":
                self._column, self._rows = 0, _count(attributes, "number-rows-repeated")
            case "table-cell" | "covered-table-cell":
                self._columns = _count(attributes, "number-columns-repeated")
                if formula := attributes.get("formula", ""):
                    self._book.formulas.append(CellFormula(_excel_formula(formula), self._area()))
                if validation := attributes.get("content-validation-name", ""):
                    self._validated[validation].append(self._area())
            case "annotation":
                self._is_note = True
            case "p":
                self.text.clear()
            case "content-validation":
                condition = _excel_formula(attributes.get("condition", ""))
                self._conditions.append((attributes.get("name", ""), condition))
            case "conditional-format":
                range_ = _excel_formula(f"[{attributes.get('target-range-address', '')}]")
                self._format = _area_of(range_, "") or self._area()
            case "condition" if "value" in attributes:
                text = _excel_formula(attributes["value"])
                is_test = not text.startswith("formula-is")
                self._book.formulas.append(CellFormula(text, self._format, False, is_test))
            case "map":  # a conditional format of older files
                text = _excel_formula(attributes.get("condition", ""))
                self._book.formulas.append(CellFormula(text, Area("", 0, 0, 0, 0), False))
            case "named-range" | "database-range":
                range_ = attributes.get("cell-range-address") or attributes.get(
                    "target-range-address", ""
                )
                self._book.names[attributes.get("name", "").casefold()] = _excel_formula(
                    f"[{range_}]"
                )
            case "named-expression":
                expression = _excel_formula(attributes.get("expression", ""))
                self._book.names[attributes.get("name", "").casefold()] = expression
            case "filter-condition" | "filter-set-item":
                self._book.filters.add(attributes.get("value", ""))
            case "data-pilot-member":
                self._book.strings.add(attributes.get("name", ""))
            case "data-pilot-field":
                self._book.strings.add(attributes.get("source-field-name", ""))

    def end(self, name: str) -> None:
        match name:
            case "table-row":
                self._row += self._rows
            case "table-cell" | "covered-table-cell":
                self._column += self._columns
            case "annotation":
                self._is_note = False
            case "p" if self._sheet and not self._is_note:
                area = self._area()
                for column in range(area.left, min(area.right, _MOST_COLUMNS) + 1):
                    cells = self._book.cells[self._sheet, column]
                    cells.append((area.top, area.bottom, "".join(self.text)))
            case "spreadsheet":
                for name, condition in self._conditions:
                    for area in self._validated[name]:
                        self._book.formulas.append(
                            CellFormula(condition, area, False, "-in-list" in condition)
                        )

    def _area(self) -> Area:
        bottom, right = self._row + self._rows - 1, self._column + self._columns - 1
        return Area(self._sheet, self._row, self._column, bottom, right)


def _count(attributes: dict[str, str], name: str) -> int:
    count = attributes.get(name, "1")
    return min(int(count), _END) if count.isdigit() else 1


def _excel_formula(formula: str) -> str:
    """Return a formula of OpenDocument with references as in Excel.

    >>> _excel_formula("of:=COUNTIF([$'My sheet'.$A$1:.$A$9];[.B2])")
    "COUNTIF('My sheet'!$A$1:$A$9;B2)"
    """

    def reference(match: re.Match[str]) -> str:
        sheet = f"{match['sheet']}!" if match["sheet"] else ""
        return sheet + match["start"] + (f":{match['end']}" if match["end"] else "")

    return _ODF_REFERENCE.sub(reference, re.sub(r"^\w+:=?|^=", "", formula))
