"""Log lines and metrics in the formats of Powertools and CloudWatch."""
