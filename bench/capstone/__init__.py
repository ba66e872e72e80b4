"""What the capstone costs, in ratios to torch's own ways and to other packages, measured in one run."""
