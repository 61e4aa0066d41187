"""Published numbers of papers, beside what was measured: tables, figures, claims, pages."""
