"""The one reader of tokens: whoever begins to watch while it reads is given all of them, in order, and nobody any twice."""

import asyncio

from wakeful.deploy.gateway.live.subscriptions import Subscription, Wanted
from wakeful.deploy.gateway.live.token_feed import TokenFeed
from wakeful.processors.activities.tokens import Token


class Reader:
    """Streams in memory; `meanwhile` is called once, between the question and its answer."""

    def __init__(self):
        self.tokens, self.meanwhile = [], None

    def key(self, tenant, session_id):
        return f"{tenant}/{session_id}"

    def read(self, positions):
        ((key, at),) = positions.items()
        after = int(at.split("-")[0])
        found = [(key, f"{n}-0", one) for n, one in enumerate(self.tokens, 1) if n > after]
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return found

    def close(self):
        """Nothing is open."""


def test_whoever_begins_to_watch_while_tokens_are_read_is_given_those_before_as_well():
    async def main():
        reader = Reader()
        feed = TokenFeed(lambda _: reader)
        first, second = (Subscription(Wanted("acme", "s1")) for _ in range(2))
        feed._stopped.set()  # its thread is this one
        feed.watch(first)
        reader.tokens = [Token("1.1", 1, "r", n, f"{n}") for n in range(3)]
        feed._hand_out(reader, dict(feed._positions))
        reader.tokens += [Token("1.1", 1, "r", n, f"{n}") for n in range(3, 6)]
        reader.meanwhile = lambda: feed.watch(second)
        feed._hand_out(reader, dict(feed._positions))
        feed._hand_out(reader, dict(feed._positions))
        for one in (first, second):
            assert [token.index for token in one.take()[1]] == list(range(6))
        for one in (first, second):
            feed.unwatch(one)
        assert not feed._positions
        assert not feed._watched

    asyncio.run(main())
