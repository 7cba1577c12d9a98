"""Every client on every mix of bookies, in both protocol versions, with all four digests."""
