"""`python -m docs.generate`: write docs/reference/tables and docs/leaderboard.md."""

from docs.generate import TABLES, write_pages
from docs.generate.leaderboard import PAGE, leaderboard
from docs.generate.tables import table_pages

if __name__ == "__main__":
    write_pages(TABLES, table_pages())
    PAGE.write_text(leaderboard(), encoding="utf-8")
