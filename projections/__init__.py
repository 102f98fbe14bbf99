"""The read side: events become rows in Postgres, and questions are answered from them."""
