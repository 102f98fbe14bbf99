"""Rehearsals: users' workflows on the real core, in virtual time, without a log. Its door is `wakeful.testing`."""
