"""Every version of a record reads every other one."""

import dataclasses
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wakeful.events.codec import (
    Codec,
)
from wakeful.events.limits import EVENT_MAX
from wakeful.events.records import (
    Envelope,
)
from wakeful.schemas import Library, SchemaVersion, bundled
from wakeful.schemas.library import fingerprint_of

from .samples import (
    ENVELOPE,
    FOLDER,
    plain,
    records,
)


def versions(folder: Path) -> Iterator[dict[str, Any]]:
    """TimerFired as it is, then as three releases would add to it, and a doc that was rewritten."""
    schema = json.loads((FOLDER / "TimerFired.avsc").read_text("utf-8"))
    yield schema
    extra = {
        "type": "record",
        "name": "Zone",
        "namespace": "wakeful.v1",
        "doc": "Z.",
        "fields": [{"name": "at", "type": "string", "doc": "Where."}],
    }
    for field in (
        {"name": "why", "type": "string", "default": "due", "doc": "Why."},
        {"name": "zone", "type": ["null", extra], "default": None, "doc": "Zone."},
        {
            "name": "tags",
            "type": {"type": "array", "items": "wakeful.v1.Zone"},
            "default": [],
            "doc": "T.",
        },
    ):
        schema = {
            **schema,
            "doc": f"{schema['doc']} And more.",
            "fields": [*schema["fields"], field],
        }
        yield schema


@dataclasses.dataclass(frozen=True, slots=True)
class Zone:
    at: str


def timer_classes() -> list[type]:
    """The class of each version."""
    fields: list[Any] = [("timer_id", str), ("due_ms", int)]
    more: list[Any] = [("why", str), ("zone", Zone | None), ("tags", tuple[Zone, ...])]
    made = []
    for count in range(4):
        cls = dataclasses.make_dataclass(
            "TimerFired", [*fields, *more[:count]], frozen=True, slots=True
        )
        made.append(cls)
    return made


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> list[Codec]:
    """A codec per release: the first knows all versions too, as an old process beside newer ones would not,
    so that every writer meets every reader."""
    root = tmp_path_factory.mktemp("releases")
    codecs = []
    schemas = list(versions(root))
    for newest in range(len(schemas)):
        folder = root / str(newest)
        (folder / "history").mkdir(parents=True)
        order = [i for i in range(len(schemas)) if i != newest] + [newest]
        lines = []
        for i in order:
            file = f"history/TimerFired.{i}.avsc" if i != newest else "TimerFired.avsc"
            (folder / file).write_text(json.dumps(schemas[i]), "utf-8")
            lines.append((1_000_000 + i, schemas[i], file))
        text = "".join(
            f"{i} {fingerprint_of(s).hex()} wakeful.v1.TimerFired {f}\n" for i, s, f in lines
        )
        (folder / "ids.lock").write_text(text, "utf-8")
    for newest, cls in enumerate(timer_classes()):
        wrapper = dataclasses.make_dataclass(
            "Event", [("envelope", Envelope), ("body", cls)], frozen=True, slots=True
        )
        codec = Codec(
            [cls], wrapper=wrapper, value_max=EVENT_MAX, library=Library(root / str(newest))
        )
        codecs.append(codec)
    return codecs


def newest_of(codec: Codec) -> tuple[type, type]:
    (cls,) = codec._classes.values()
    assert codec._wrapper is not None
    return codec._wrapper, cls


@pytest.mark.case("L20")
@given(data=st.data())
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_version_reads_every_other_one(releases: list[Codec], data: st.DataObject) -> None:
    writer, reader = data.draw(st.sampled_from(releases)), data.draw(st.sampled_from(releases))
    wrapper, cls = newest_of(writer)
    body = data.draw(records(cls))
    encoded = writer.encode(wrapper(ENVELOPE, body))
    read = reader.decode(encoded.value, encoded.fingerprint)
    _, wanted = newest_of(reader)
    assert type(read.body) is wanted
    assert read.envelope == ENVELOPE
    defaults = {"why": "due", "zone": None, "tags": ()}
    for field in dataclasses.fields(wanted):
        assert getattr(read.body, field.name) == getattr(body, field.name, defaults.get(field.name))


@pytest.mark.case("L20")
def test_ours_resolves_versions_as_fastavro_does(releases: list[Codec]) -> None:
    schemas = list(versions(FOLDER))
    for writer in releases:
        wrapper, cls = newest_of(writer)
        body = cls("t", 5, *(("why", Zone("x"), (Zone("y"),))[: len(dataclasses.fields(cls)) - 2]))
        encoded = writer.encode(wrapper(ENVELOPE, body))
        for reader, schema in zip(releases, schemas, strict=True):
            read = reader.decode(encoded.value, encoded.fingerprint)
            written = schemas[releases.index(writer)]
            theirs = fastavro.schemaless_reader(io.BytesIO(encoded.body), written, schema)
            assert {"envelope": plain(read.envelope), **plain(read.body)} == theirs


def test_a_class_that_left_its_schema_is_refused_before_anything_is_written() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class TimerFired:
        due_ms: int
        timer_id: str

    with pytest.raises(TypeError, match="its class has"):
        Codec([TimerFired], value_max=1000).encode(TimerFired(1, "t"))


def test_versions_of_a_codec_are_found_by_id_as_well() -> None:
    version: SchemaVersion = bundled().current("wakeful.v1.TimerSet")
    assert bundled().of_id(version.id) is version is bundled().of_fingerprint(version.fingerprint)
