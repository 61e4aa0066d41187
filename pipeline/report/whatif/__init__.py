"""The page of `hindcast whatif`: a log's own scheduler beside other policies, on one machine."""
