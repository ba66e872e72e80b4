"""The labs: one file each, which can be copied alone."""
