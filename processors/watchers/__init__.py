"""Watchers: windows and proposals made from the events, by processes that own no state and write none."""
