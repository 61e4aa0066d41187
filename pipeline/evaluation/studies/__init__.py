"""Data-quality studies: agents trained on different logs of one problem."""
