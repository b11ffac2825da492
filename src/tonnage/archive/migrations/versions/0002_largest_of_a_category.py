"""An index that finds the largest jobs of a category without sorting all of it."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Apply this migration."""
    known = sa.text("memory IS NOT NULL")
    op.create_index(
        "attempts_category_memory", "attempts", ["category", "memory"], sqlite_where=known, postgresql_where=known
    )
