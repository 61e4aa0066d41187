"""Studies of data quality: the same agents on several logs of one problem."""
