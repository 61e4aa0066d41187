"""`python -m docs.generate`: write the committed tables to docs/reference/tables."""

from docs.generate import TABLES, write_pages
from docs.generate.tables import table_pages

if __name__ == "__main__":
    write_pages(TABLES, table_pages())
