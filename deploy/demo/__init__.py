"""`wakeful demo`: a triage agent over customer messages, killed twice in the middle, and a report that checks it."""
