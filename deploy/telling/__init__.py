"""What is told to people, whoever asks: events and rows in words, a session's story, dead letters; the command line and
the console show the same.
"""
