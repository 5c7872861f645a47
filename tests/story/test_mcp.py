"""`dragoman mcp` with the protocol's own client (mcp 2.3.0), on standard input and output."""

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Imported where it is used: that takes a second, in every process that collects the tests.
if importlib.util.find_spec("mcp") is None:
    pytest.skip("pip install mcp", allow_module_level=True)


def talk(arguments, calls):
    """The names of the tools, and the answer to each call: whether it failed, and its text."""
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def conversation():
        command = ["-m", "dragoman", "mcp", "--device", "cpu", *map(str, arguments)]
        server = StdioServerParameters(command=sys.executable, args=command, env={**os.environ})
        async with Client(stdio_client(server)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            answers = []
            for name, values in calls:
                result = await client.call_tool(name, values)
                answers.append((result.is_error, "\n\n".join(c.text for c in result.content)))
            return names, answers

    return asyncio.run(conversation())


def test_a_host_translates_texts_and_files_in_the_named_folder_only(trained_onnx, tmp_path) -> None:
    open_, closed = tmp_path / "open", tmp_path / "closed"
    open_.mkdir()
    closed.mkdir()
    (open_ / "a.md").write_text("# eins zwei\n")
    (closed / "b.md").write_text("drei\n")
    (open_ / "link.md").symlink_to(closed / "b.md")
    terms = tmp_path / "terms.tsv"
    terms.write_text("zwei\tnine\n")
    names, answers = talk(
        ["--model", trained_onnx, "--folder", open_, "--glossary", terms],
        [
            ("translate", {"text": "drei\nvier fünf", "to": "en"}),
            ("translate", {"text": "zwei", "to": "en", "source": "de"}),
            ("translate", {"text": "eins", "to": "en", "source": "de", "terms": {"eins": "six"}}),
            ("translate_file", {"path": str(open_ / "a.md"), "to": "en", "source": "de"}),
            ("translate_file", {"path": "a.md", "to": "en", "output": str(closed / "c.md")}),
            ("translate_file", {"path": str(closed / "b.md"), "to": "en"}),
            ("translate_file", {"path": str(open_ / "link.md"), "to": "en"}),
            ("translate_file", {"path": "../closed/b.md", "to": "en"}),
            ("detect", {"text": "eins zwei"}),
            ("list_languages", {}),
            ("glossary", {"text": "eins zwei"}),
            ("glossary", {"text": "eins"}),
            ("translate", {"text": "eins", "to": "fr"}),
        ],
    )
    assert names == ["translate", "detect", "list_languages", "glossary", "translate_file"]
    texts = [text for _, text in answers]
    assert texts[0] == "three\nfour five"
    assert "nine" in texts[1]
    assert "six" in texts[2]
    assert texts[3] == str(open_ / "a.en.md")
    assert "nine" in (open_ / "a.en.md").read_text()
    for failed, text in answers[4:8]:
        assert failed
        assert "outside the folders that this server may use" in text
    assert sorted(path.name for path in closed.iterdir()) == ["b.md"]
    assert {json.loads(part)["language"] for part in texts[8].split("\n\n")} == {"de", "en"}
    assert "de" in texts[9]
    assert "zwei" in texts[10]
    assert "zwei" not in texts[11]
    assert answers[12][0]
    assert "no model here translates" in texts[12]


def test_without_a_folder_there_is_no_tool_for_files(trained_onnx) -> None:
    names, _ = talk(["--model", trained_onnx], [])
    assert "translate_file" not in names


INSPECTOR = Path("build/inspector/node_modules/.bin/mcp-inspector").absolute()


@pytest.mark.slow
@pytest.mark.skipif(not INSPECTOR.exists(), reason="make clients")
def test_the_inspector_lists_and_calls_the_tools(trained) -> None:
    """@modelcontextprotocol/inspector 0.15.0, which uses another implementation of the protocol."""

    def inspect(*options: str) -> dict:
        server = [sys.executable, "-m", "dragoman", "mcp", "--device", "cpu", "--model", trained]
        ran = subprocess.run(
            [INSPECTOR, "--cli", *server, *options], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    tools = inspect("--method", "tools/list")["tools"]
    assert [tool["name"] for tool in tools] == ["translate", "detect", "list_languages", "glossary"]
    call = ("--method", "tools/call", "--tool-name", "translate", "--tool-arg")
    (content,) = inspect(*call, "text=eins zwei", "to=en", "source=de")["content"]
    assert content["text"] == "one two"


def test_every_call_gets_an_answer_even_with_odd_strings(trained_onnx, tmp_path) -> None:
    """The test writes the messages itself: the protocol's client cannot send such strings."""
    begun = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "a", "version": "1"},
    }
    calls = [
        ("translate", {"text": "eins \ud800", "to": "en"}),
        ("translate", {"text": "eins\0", "to": "en"}),
        ("translate", {"text": "eins", "to": "en", "terms": {"\udfff": "a"}}),
        ("translate_file", {"path": "a\0.txt", "to": "en"}),
        ("translate", {"text": "eins", "to": "en", "source": "de"}),
        ("translate", {"text": "eins \U0001f600", "to": "en", "source": "de"}),
        ("translate", {"text": "DIGITS", "to": "en"}),
        ("translate", {"text": "DEEP", "to": "en"}),
        ("translate", {"text": "eins", "to": "en", "terms": {"eins": "DEEP"}}),
    ]
    raw = {'"DIGITS"': "9" * 5000, '"DEEP"': "[" * 100_000 + "]" * 100_000}
    lines = [{"id": 0, "method": "initialize", "params": begun}]
    lines.append({"method": "notifications/initialized"})
    for number, (name, values) in enumerate(calls, 1):
        params = {"name": name, "arguments": values}
        lines.append({"id": number, "method": "tools/call", "params": params})
    command = [sys.executable, "-m", "dragoman", "mcp", "--device", "cpu"]
    command += ["--model", str(trained_onnx), "--folder", str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        for line in lines:
            message = json.dumps({"jsonrpc": "2.0", **line})
            for name, value in raw.items():
                message = message.replace(name, value)
            server.stdin.write(message + "\n")
        server.stdin.flush()
        answers = {}
        while len(answers) < 1 + len(calls):
            answer = json.loads(server.stdout.readline())
            answers[answer["id"]] = answer["result"]
        said = server.communicate(timeout=60)[1]
    texts = {
        number: (answers[number].get("isError", False), answers[number]["content"][0]["text"])
        for number in range(1, 1 + len(calls))
    }
    assert all(texts[number][0] for number in range(1, 5)), texts
    assert all("U+0000" in texts[number][1] for number in range(1, 5)), texts
    assert texts[5] == (False, "one")
    assert not texts[6][0]
    assert all(texts[number][0] for number in range(7, 10)), texts
    assert "Traceback" not in said
