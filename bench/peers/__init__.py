"""Other engines under the same workload, measured in turn with Wakeful; nothing of theirs is in this folder."""
