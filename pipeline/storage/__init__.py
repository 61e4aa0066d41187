"""Files and folders, here or in an object store, written atomically and read with care."""
