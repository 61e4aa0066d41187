"""Networks and agents of single papers, one folder per paper."""
