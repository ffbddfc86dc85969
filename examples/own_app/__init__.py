"""A CDK app of your own that uses the constructs."""
