"""The streams that docs/http.md shows are asked for with curl, and say what the page shows; its numbers are the code's."""

import re
import shutil
import subprocess

import pytest

from tests.deploy.gateway.live_rig import Gateway, live_rig, until
from wakeful.deploy.gateway.live import framing, live, streams, subscriptions
from wakeful.deploy.gateway.settings import GatewaySettings
from wakeful.processors.activities import redis_tokens

from .readme import ROOT, blocks

SECTION = re.split(r"^## ", (ROOT / "docs" / "http.md").read_text("utf-8"), flags=re.MULTILINE)
(LIVE,) = [part for part in SECTION if part.startswith("Live\n")]


def shown():
    """Commands, and what the page says that they print."""
    told = "\n".join(blocks("console", LIVE))
    return [tuple(one.split("\n", 1)) for one in re.split(r"^\$ ", told, flags=re.MULTILINE) if one]


def pattern(output):
    """What is left out on the page is any text."""
    return ".*".join(re.escape(part) for part in re.split(r"\s*…\s*", output.strip()))


def told(command, gateway, key, **more):
    environ = {"PATH": "/usr/bin:/bin", "WAKEFUL_URL": gateway.url, "KEY": key, **more}
    return subprocess.Popen(
        ["bash", "-c", command], env=environ, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )


@pytest.mark.kafka
@pytest.mark.postgres
def test_its_streams_say_what_it_shows(endpoints, postgres_url, keys, tmp_path_factory):
    if shutil.which("curl") is None:
        pytest.skip("curl, which the page uses, is not installed")
    (first, one), (again, rest), (tenant, all_of_it) = shown()
    with live_rig(endpoints, postgres_url, keys, tmp_path_factory.mktemp("page")) as rig:
        gateway = Gateway(rig.settings)
        try:
            gateway.start()
            key = gateway.key("viewer")
            position = gateway.get("/v1/sessions", key)[2]["wakeful-position"]
            rig.open("talk-1")
            with told(first, gateway, key) as watching:
                until(lambda: gateway.is_watched(), "the stream to begin")
                rig.say("talk-1", pause_ms=100, waits=True)
                heard = ""
                while '"see."' not in heard:  # tokens of what is over are not shown
                    heard += watching.stdout.readline()
                rig.let_go("talk-1")
                rig.say("talk-1", "ends")
                heard += watching.stdout.read()
            assert re.fullmatch(pattern(one), heard.strip(), re.DOTALL), heard
            with told(again, gateway, key) as watching:
                heard = watching.stdout.read()
            assert re.fullmatch(pattern(rest), heard.strip(), re.DOTALL), heard
            with told(f"exec {tenant} --max-time 20", gateway, key, POSITION=position) as watching:
                heard = ""
                for line in watching.stdout:
                    heard += line
                    if re.fullmatch(pattern(all_of_it), heard.strip(), re.DOTALL):
                        watching.terminate()  # it never ends by itself
            assert re.fullmatch(pattern(all_of_it), heard.strip(), re.DOTALL), heard
        finally:
            gateway.close()


def test_its_numbers_are_those_of_the_code():
    assert (subscriptions.EVENTS_MAX, subscriptions.BYTES_MAX) == (1_000, 256 * 1024)
    assert (live.STREAMS_MAX, streams.HEARTBEAT_S, framing.RETRY_MS) == (2_000, 15.0, 1_000)
    assert (GatewaySettings.model_fields["unread_s"].default, redis_tokens.KEPT_MS) == (
        30.0,
        10 * 60_000,
    )
    assert redis_tokens.TOKENS_MAX == 4_000


def test_it_names_all_that_a_stream_says():
    folder = ROOT / "deploy" / "gateway" / "live"
    text = "".join(path.read_text("utf-8") for path in sorted(folder.glob("*.py")))
    said = set(re.findall(r'\btold\(\s*"([a-z-]+)"', text))
    assert said == set(re.findall(r"^\| `([a-z-]+)` \|", LIVE, re.MULTILINE))
