"""The console: pages for people over the same queries and commands as HTTP has, in the gateway's own process.

Pages are made on the server and work without scripts; htmx, which lies beside them, keeps what is shown up to date. What a
button does is a command like any other, and a page shows the session's own verdict on it. Nothing here is state that
cannot be lost: who is signed in, the cookie says, and the key file that signs it lies in the home.
"""
