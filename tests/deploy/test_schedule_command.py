"""`wakeful schedule`: what cannot be a schedule is a usage error before anything is opened, and names the value."""

import pytest

from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit

CREATE = ("create", "daily", "--workflow", "report", "--cron")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*CREATE, "0 9 * *"), "cron '0 9 * *' has 4 fields"),
        ((*CREATE, "0 9 * * FRY"), "cron '0 9 * * FRY': bad day-of-week"),
        ((*CREATE, "0 9 * * *", "--timezone", "Berlin"), "time zone 'Berlin' is not known here"),
        (
            (*CREATE, "0 9 * * *", "--catch-up", "some"),
            "catch_up: Input should be 'none', 'last' or",
        ),
        ((*CREATE, "0 9 * * *", "--overlap", "skip"), "overlap 'skip' is for a named session"),
        ((*CREATE, "0 9 * * *", "--until", "soon"), "--until 'soon' is no time"),
        ((*CREATE, "0 9 * * *", "--until", "2020-01-01"), "never due before 2020-01-01"),
        ((*CREATE, "0 9 * * *", "--data", "{"), "--data is not JSON"),
        (("pause", "a b"), "name 'a b': use letters"),
    ],
)
def test_what_cannot_be_meant_is_told(
    words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(("schedule", *words)) == Exit.USAGE
    assert told in capsys.readouterr().err
