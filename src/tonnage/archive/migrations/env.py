"""Alembic's environment script; it uses the archive's own connection."""

from alembic import context

from tonnage.archive.schema import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
