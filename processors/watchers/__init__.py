"""Watchers: windows and proposals made from the events, by processes that change no session."""
