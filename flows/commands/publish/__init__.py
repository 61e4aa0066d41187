"""Commands that hand results and datasets to others, one file each."""
