"""Pages made from templates."""
