"""A translated spreadsheet calculates what its source does."""

import csv
import io
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import openpyxl
import pytest
from openpyxl.formatting.rule import CellIsRule, FormulaRule
from openpyxl.workbook.defined_name import DefinedName
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.table import Table

from dragoman.documents.document import Document, DocumentError, ReadOptions
from dragoman.documents.formats import format_of, read
from dragoman.documents.segment import Segment, plain_text
from dragoman.documents.spreadsheets import COMPARED, IN_FORMULA

ROWS = [
    ("Order", "Status", "Amount"),
    ("A red chair", "Open", 10),
    ("A round table", "Closed", 20),
    ("A green lamp", "Open", 30),
    ("A blue door", "Waiting", 5),
]


def workbook(*formulas: str, change: Callable = lambda sheet: None) -> bytes:
    """Return a workbook of orders, with formulas in column E."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Orders"
    for row in ROWS:
        sheet.append(row)
    for number, formula in enumerate(formulas, 1):
        sheet[f"E{number}"] = formula
    change(sheet)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def texts(raw: bytes, name: str = "a.xlsx") -> set[str]:
    document = read(name, raw, format_of(name))
    return {plain_text(segment) for segment in document.segments}


def left(raw: bytes, name: str = "a.xlsx") -> set[str]:
    """Return the texts that are left because something compares with them."""
    document = read(name, raw, format_of(name))
    return {one.text for one in document.left if one.why == COMPARED}


STATUS = {"Open", "Closed", "Waiting"}
ORDERS = {row[0] for row in ROWS[1:]}


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ('=IF(B2="Open",1,0)', {"Open"}),
        ('=IF("closed"=B3,1,0)', {"Closed"}),
        ('=IF(B2&C2="Open10",1,0)', {"Open"}),
        ('=IF(AND(C2>1,$B$3<>"x"),1,0)', {"Closed"}),
        ('=COUNTIF(B2:B5,"Open")', STATUS),
        ('=COUNTIF(B2:B5,"O*")', STATUS),
        ('=COUNTIF(B:B,"Open")', STATUS | {"Status"}),
        ('=SUMIF(Orders!B2:B5,"Open",Orders!C2:C5)', STATUS),
        ("=SUMIF('Orders'!$B$2:$B$5,\"Open\",C2:C5)", STATUS),
        ('=SUMPRODUCT((B2:B5="Open")*C2:C5)', STATUS),
        ("=MATCH(B2,B3:B5,0)", STATUS),
        ('=VLOOKUP("A red chair",A2:C5,3,FALSE)', ORDERS | STATUS),
        ('=LEFT(B2,2)="Op"', {"Open"}),
        ('=ISNUMBER(SEARCH("wait",B5))', {"Waiting"}),
        ("=LEN(B2)+LEN(B5)", {"Open", "Waiting"}),
        ("=INDIRECT(B3)", {"Closed"}),
        ("=TEXT(C2,B3)", {"Closed"}),
        ("=YEAR(B5)", {"Waiting"}),
        ('=_xlfn.XLOOKUP("Open",B2:B5,C2:C5)', STATUS),
        ('=SWITCH(B2,"Open",1,"Closed",2)', {"Open", "Closed"}),
        ('=HLOOKUP("Amount",1:2,2,FALSE)', {"Order", "Status", "Amount", "A red chair", "Open"}),
        # These do not depend on the letters.
        ("=SUM(A1:C5)", set()),
        ('=IF(B2="","",C2*2)', set()),
        ('=IF(B2<>"",C2*2,0)', set()),
        ('=IF(C2>10,"much","little")', set()),
        ("=COUNTA(B2:B5)", set()),
        ('=A2&" is "&B2', set()),
        ("=B2", set()),
    ],
)
def test_cells_that_a_formula_compares_with_are_left(formula: str, expected: set[str]) -> None:
    raw = workbook(formula)
    assert left(raw) == expected
    assert (
        texts(raw) == {value for row in ROWS for value in row if isinstance(value, str)} - expected
    )


def test_what_a_formula_passes_on_is_left_if_the_next_one_compares_with_it() -> None:
    assert left(workbook("=B2", "=TRIM(E1)", "=LEN(E2)")) == {"Open"}
    assert left(workbook("=LEN(E2)", "=E3", "=B2")) == {"Open"}
    assert left(workbook("=B2", "=TRIM(E1)", "=E2&E1")) == set()


def test_formulas_in_strings_are_named_in_the_report() -> None:
    document = read("a.xlsx", workbook('=C2&" are open"', '=TEXT(C2,"0.00")'), format_of("a.xlsx"))
    assert [one.text for one in document.left if one.why == IN_FORMULA] == [" are open"]


def shared(sheet: object) -> None:
    from openpyxl.worksheet.formula import ArrayFormula

    sheet["E1"] = ArrayFormula("E1:E4", '=IF(B2="Open",1,0)')


def listed(sheet: object) -> None:
    validation = DataValidation(type="list", formula1='"Open,Closed"')
    sheet.add_data_validation(validation)
    validation.add("D2:D9")


def listed_from_cells(sheet: object) -> None:
    sheet["G1"], sheet["G2"] = "High", "Low"
    sheet["D2"] = "Medium"
    validation = DataValidation(type="list", formula1="$G$1:$G$2")
    sheet.add_data_validation(validation)
    validation.add("D2:D9")


def formatted(sheet: object) -> None:
    sheet.conditional_formatting.add("A2:C5", FormulaRule(formula=['$B2="Open"']))


def formatted_by_value(sheet: object) -> None:
    sheet.conditional_formatting.add("B2:B5", CellIsRule(operator="equal", formula=['"Waiting"']))


def striped(sheet: object) -> None:
    sheet.conditional_formatting.add("A1:C5", FormulaRule(formula=["MOD(ROW(),2)=0"]))


def filtered(sheet: object) -> None:
    sheet.auto_filter.ref = "A1:C5"
    sheet.auto_filter.add_filter_column(1, ["Closed"])


def named(sheet: object) -> None:
    sheet.parent.defined_names["States"] = DefinedName("States", attr_text="Orders!$B$2:$B$3")
    sheet["E1"] = '=COUNTIF(States,"Open")'


def in_table(sheet: object) -> None:
    sheet.add_table(Table(displayName="Sales", ref="A1:C5"))
    sheet["E1"] = '=COUNTIF(Sales[Status],"Open")'


def on_another_sheet(sheet: object) -> None:
    other = sheet.parent.create_sheet("My sums")
    other["A1"] = "The number of orders"
    other["B2"] = "A word of its own"
    other["A2"] = '=COUNTIF(Orders!B2:B5,"Open")'


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (shared, STATUS),
        (listed, {"Open", "Closed"}),
        (listed_from_cells, {"High", "Low", "Medium"}),
        (formatted, STATUS),
        (formatted_by_value, {"Waiting"}),
        (striped, set()),
        (filtered, {"Closed"}),
        (named, {"Open", "Closed"}),
        (in_table, STATUS | {"Order", "Status", "Amount"}),
        (on_another_sheet, STATUS),
    ],
)
def test_lists_filters_names_and_formats_leave_what_they_compare_with(
    change: Callable, expected: set[str]
) -> None:
    assert left(workbook(change=change)) == expected


def members(raw: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(content: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, raw in content.items():
            archive.writestr(name, raw)
    return out.getvalue()


def test_items_of_a_pivot_table_and_lists_of_newer_versions_are_left() -> None:
    inside = members(workbook())
    inside["xl/pivotCache/pivotCacheDefinition1.xml"] = (
        b'<pivotCacheDefinition><cacheFields><cacheField name="Amount"><sharedItems>'
        b'<s v="Waiting"/></sharedItems></cacheField></cacheFields></pivotCacheDefinition>'
    )
    assert left(packed(inside)) == {"Waiting", "Amount"}
    inside = members(workbook())
    extension = (
        b'<extLst><ext xmlns:x14="x" xmlns:xm="m"><x14:dataValidations>'
        b'<x14:dataValidation type="list">'
        b"<x14:formula1><xm:f>Orders!$A$2:$A$3</xm:f></x14:formula1><xm:sqref>B3</xm:sqref>"
        b"</x14:dataValidation></x14:dataValidations></ext></extLst></worksheet>"
    )
    sheet = "xl/worksheets/sheet1.xml"
    inside[sheet] = inside[sheet].replace(b"</worksheet>", extension) + b"<!-- <f> -->"
    assert left(packed(inside)) == {"A red chair", "A round table", "Closed"}


ODS = """<office:document-content xmlns:office="o" xmlns:table="t" xmlns:text="x" xmlns:calcext="c">
<office:body><office:spreadsheet><table:content-validations>{validations}</table:content-validations>
<table:table table:name="My orders">{rows}</table:table>{after}</office:spreadsheet></office:body>
</office:document-content>"""


def ods(formula: str = "", validations: str = "", after: str = "") -> bytes:
    """Return the same orders, with a formula in the first row; each row begins with empty cells."""

    def cell(value: object) -> str:
        attribute = ' table:content-validation-name="v"' if value == "Closed" else ""
        return f"<table:table-cell{attribute}><text:p>{value}</text:p></table:table-cell>"

    rows = [f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in ROWS]
    quoted = formula.replace('"', "&quot;")
    rows[0] = rows[0].replace(
        "</table:table-row>", f'<table:table-cell table:formula="{quoted}"/></table:table-row>'
    )
    gap = '<table:table-row table:number-rows-repeated="9"><table:table-cell/></table:table-row>'
    text = ODS.format(rows=gap + "".join(rows), validations=validations, after=after)
    return packed({"content.xml": text.encode()})


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ('of:=IF([.B11]="Open";1;0)', {"Open"}),
        ('of:=COUNTIF([.B11:.B14];"Open")', STATUS),
        ("of:=COUNTIF([$'My orders'.$B$11:.$B$12];[.C11])", {"Open", "Closed"}),
        ("of:=SUM([.B11:.B14])", set()),
    ],
)
def test_cells_of_an_opendocument_sheet_are_left_as_well(formula: str, expected: set[str]) -> None:
    assert left(ods(formula), "a.ods") == expected


def test_a_cell_that_states_its_text_twice_is_translated_twice() -> None:
    raw = ods()
    text = members(raw)["content.xml"].decode()
    stated = text.replace(
        "<table:table-cell><text:p>A red chair<",
        '<table:table-cell office:string-value="A red chair"><text:p>A red chair<',
    )
    document = read("a.ods", packed({"content.xml": stated.encode()}), format_of("a.ods"))
    after = document.write([offen(segment) for segment in document.segments])
    assert members(after)["content.xml"].decode().count("Aß derß riahcß") == 2


def test_lists_filters_and_formats_of_an_opendocument_sheet_are_respected() -> None:
    validation = (
        '<table:content-validation table:name="v" table:condition="of:cell-content-is-in-list'
        "([$'My orders'.$A$11:.$A$12])\"/>"
    )
    assert left(ods(validations=validation), "a.ods") == {"A red chair", "A round table", "Closed"}
    listed = validation.replace(
        "[$'My orders'.$A$11:.$A$12]", "&quot;Waiting&quot;;&quot;Open&quot;"
    )
    assert left(ods(validations=listed), "a.ods") == {"Waiting", "Open"}
    after = (
        '<table:filter-condition table:value="Open"/><table:data-pilot-member table:name="Closed"/>'
    )
    assert left(ods(after=after), "a.ods") == {"Open", "Closed"}
    format_ = (
        '<calcext:conditional-format calcext:target-range-address="My orders.B11:My orders.B14">'
        '<calcext:condition calcext:value="formula-is([.B11]=&quot;Open&quot;)"/>'
        "</calcext:conditional-format>"
    )
    assert "Open" in left(ods(after=format_), "a.ods")


def test_a_file_whose_compared_cells_changed_is_not_written() -> None:
    raw = workbook('=COUNTIF(B2:B5,"Open")')
    format_ = format_of("a.xlsx")

    def write(segments: Sequence[Segment]) -> bytes:
        inside = members(raw)
        return packed({name: one.replace(b">Open<", b">Offen<") for name, one in inside.items()})

    def read_badly(raw: bytes, options: ReadOptions) -> Document:
        return replace(format_.read(raw, options), write=write)

    document = read("a.xlsx", raw, replace(format_, read=read_badly))
    with pytest.raises(DocumentError, match="compare with 'open' in the cell in row 2, column 2"):
        document.write(document.segments)


@pytest.mark.parametrize("broken", [b"<sheet", b"<!DOCTYPE x [<!ENTITY a 'b'>]><workbook/>"])
def test_a_damaged_workbook_is_refused(broken: bytes) -> None:
    inside = members(workbook('=COUNTIF(B2:B5,"Open")')) | {"xl/workbook.xml": broken}
    with pytest.raises(DocumentError, match=r"not well-formed|DTD"):
        read("a.xlsx", packed(inside), format_of("a.xlsx"))


def test_filters_with_wildcards_leave_what_they_find() -> None:
    def filtered_by_part(sheet: object) -> None:
        sheet.auto_filter.ref = "A1:C5"
        sheet.auto_filter.add_filter_column(0, ["*lamp*"])

    assert left(workbook(change=filtered_by_part)) == {"A green lamp"}


def offen(segment: Segment) -> Segment:
    """Return a translation that nothing in a formula is equal to."""
    return tuple(
        re.sub(r"[A-Za-z]+", lambda word: word[0][::-1] + "ß", item)
        if isinstance(item, str)
        else item
        for item in segment
    )


@pytest.mark.skipif(not shutil.which("soffice"), reason="LibreOffice is not installed")
def test_libreoffice_calculates_the_same_numbers(tmp_path: Path) -> None:
    raw = workbook(
        '=COUNTIF(B2:B5,"Open")',
        '=E1&" orders are still open"',
        "=MATCH(B4,B1:B5,0)",
        '=SUMIF(B:B,"<>Open",C:C)',
        '=VLOOKUP("A green lamp",A:C,3,0)',
        change=listed_from_cells,
    )
    document = read("a.xlsx", raw, format_of("a.xlsx"), ReadOptions(to="de"))
    after = document.write([offen(segment) for segment in document.segments])
    results = []
    for name, content in (("before", raw), ("after", after)):
        (tmp_path / f"{name}.xlsx").write_bytes(content)
        command = ["soffice", f"-env:UserInstallation=file://{tmp_path}/user", "--headless"]
        command += ["--convert-to", "csv", "--outdir", str(tmp_path), f"{tmp_path}/{name}.xlsx"]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        with (tmp_path / f"{name}.csv").open(encoding="utf-8") as file:
            results.append([row[4] for row in csv.reader(file)])
    assert results[0] == results[1] == ["2", "2 orders are still open", "2", "25", "30"]
