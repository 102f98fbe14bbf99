"""`wakeful demo`: the refund desk under `kill -9` and lost answers, and a report that checks what is left."""
