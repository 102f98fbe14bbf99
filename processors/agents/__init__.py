"""Models behind one port, and the activity that asks them; users import `wakeful.agents`."""
