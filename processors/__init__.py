"""What turns commands into events and does the work: loop, workflows, workers."""
