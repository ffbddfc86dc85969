"""The outbox in a SQL database, through SQLAlchemy."""
