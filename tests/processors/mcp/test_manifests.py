"""The manifest: written, reviewed, read back, and what cannot be made of one."""

import pytest
from pydantic import ValidationError

from wakeful.mcp import McpServer, WrongManifest, mcp_tools
from wakeful.processors.activities.definitions import WrongArguments
from wakeful.processors.activities.signatures import Declined
from wakeful.processors.app import AppError, gather
from wakeful.processors.mcp.claims import Claims, Said
from wakeful.processors.mcp.manifest import Described, Manifest, ToolEntry, merged, parse, write
from wakeful.processors.mcp.schemas import arguments_of

ODD = 'it\'s "odd" \\ \u2028 \x7f \u00e9\nand goes on'
NUMBER = {"type": "object", "properties": {"n": {"type": "integer", "title": ODD}}}


def entry(name="pay", schema=NUMBER, **more):
    return ToolEntry(Described(name, ODD, schema, Claims(idempotent=True)), **more)


def test_it_reads_back_as_it_was_written():
    said = Said("once", "sue", "2h", 2, True, False)
    manifest = Manifest(
        "them",
        trusted=True,
        approver="ann",
        tools={
            "pay": entry(said=said, activity="pay", key_argument="n", errors_are_certain=True),
            "a/b.c": entry("a/b.c", use=False),
        },
    )
    assert parse(write(manifest), "x") == manifest


def test_what_people_wrote_is_kept_when_the_server_is_asked_again():
    kept = Manifest("them", True, "ann", {"pay": entry(said=Said("once")), "gone": entry("gone")})
    other = {"type": "object", "properties": {}}
    found = merged(kept, Manifest("them", tools={"pay": entry(schema=other), "new": entry("new")}))
    assert (found.trusted, found.approver, sorted(found.tools)) == (True, "ann", ["new", "pay"])
    assert found.tools["pay"].said == Said("once")
    assert found.tools["pay"].described.schema == other


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("server = 5", "server = 5: expected a str"),
        ("trusted = true", "names no server"),
        ("server = ", "is no TOML"),
        ('server = "them"\ntrust = true', "has 'trust': expected server, trusted"),
        ('server = "them"\n[tools.a]\nschema = "{"', "a schema that is no JSON"),
        ('server = "them"\n[tools.a]\nschema = "[]"', "a schema that is none of an object"),
        ('server = "them"\n[tools.a]\nshema = "{}"', "has 'shema'"),
        (
            'server = "them"\n[tools.a]\ncontract = "twice"',
            "expected one of read, idempotent, once",
        ),
        (
            'server = "them"\n[tools.a]\ncontract = "read"\napprover = "sue"',
            "reads cannot be gated",
        ),
        (
            'server = "them"\n[tools.a]\nschema = \'{"type": "object"}\'\nkey_argument = "k"',
            "takes no argument 'k'",
        ),
    ],
)
def test_a_mistake_is_named(text, told):
    with pytest.raises(WrongManifest, match=told):
        parse(text, "x")


def test_a_server_needs_a_manifest_of_its_own_and_one_way_to_it(stranger, tmp_path):
    with pytest.raises(WrongManifest, match="write one with 'wakeful mcp describe'"):
        McpServer("them", manifest=tmp_path / "none.toml", url="http://localhost/")
    for options, told in [
        ({}, "give one of them"),
        ({"command": ["a"], "url": "http://b"}, "give one of them"),
        ({"command": "python server.py"}, "give a list"),
        ({"url": "ftp://b"}, "begins with http"),
        ({"command": ["a"], "headers": {"a": "b"}}, "a process is given env="),
        ({"url": "http://b", "env": {"a": "b"}}, "requests have headers="),
    ]:
        with pytest.raises(Declined, match=told):
            McpServer("them", manifest=stranger.manifest, **options)
    with pytest.raises(Declined, match="is given the manifest of 'them'"):
        McpServer("us", manifest=stranger.manifest, url="http://b")


def test_its_tools_are_activities_of_an_app_and_names_are_their_own(stranger):
    stranger.said("who", "use = false")
    stranger.said("pay", 'name = "pay"')
    them = stranger.server()
    app = gather([them])
    assert "them_who" not in app.activities
    assert {"pay", "them_read"} <= set(app.activities)
    assert [tool.name for tool in them] == [
        tool.name for tool in mcp_tools("them", manifest=stranger.manifest, url="http://b")
    ]
    with pytest.raises(Declined, match="has no tool 'who'"):
        them["who"]
    with pytest.raises(AppError, match="declared twice"):
        gather([them, stranger.server()])
    stranger.said("read", 'name = "pay"')
    with pytest.raises(Declined, match="is that of"):
        stranger.server()


def test_the_key_goes_into_the_argument_that_people_name_and_nobody_chooses_it(stranger):
    stranger.said("pay", 'key_argument = "n"')
    pay = stranger.server()["pay"]
    assert pay.schema()["properties"] == {}
    with pytest.raises(WrongArguments):
        pay.call(n=1)
    assert pay.call().arguments == {}


def test_arguments_are_given_by_name_and_of_their_kinds(stranger):
    read = stranger.server()["read"]
    assert read.call(n=1).arguments == {"n": 1}
    with pytest.raises(WrongArguments, match="by name"):
        read.call(1)
    for wrong in ({}, {"n": "1"}, {"n": 1, "m": 2}, {"n": True}, {"n": 1.5}):
        with pytest.raises(WrongArguments, match=r"them_read\(\*, n\)"):
            read.call(**wrong)


KIND = {
    "type": "object",
    "$defs": {
        "line": {"type": "object", "properties": {"cents": {"type": "number", "minimum": 0}}}
    },
    "properties": {
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}, "maxItems": 2},
        "how": {"enum": ["fast", "slow"]},
        "note": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
        "self": {"$ref": "#"},
        "any": True,
    },
}


@pytest.mark.parametrize(
    "fits",
    [
        {},
        {"lines": [{"cents": 5}, {"cents": 1.5, "more": 1}]},
        {"how": "slow", "note": None},
        {"note": "abc", "any": [1, {"a": None}]},
        {"self": {"self": {"how": "fast"}}},
    ],
)
def test_a_schema_takes_what_fits_and_changes_nothing(fits):
    kind = arguments_of("a", KIND)
    assert kind.dump_python(kind.validate_python(fits), mode="json") == fits


@pytest.mark.parametrize(
    "wrong",
    [
        {"lines": [{"cents": -1}]},
        {"lines": [{}, {}, {}]},
        {"lines": [{"cents": "5"}]},
        {"how": "never"},
        {"note": "abcd"},
        {"self": {"how": 1}},
        {"other": 1},
    ],
)
def test_a_schema_refuses_what_does_not_fit(wrong):
    with pytest.raises(ValidationError):
        arguments_of("a", KIND).validate_python(wrong)
