"""Agents of Pydantic AI as workflows; the one place that knows its library. `wakeful.pydantic_ai` is what users import."""
