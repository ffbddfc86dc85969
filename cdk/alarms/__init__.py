"""Alarms: the rules as data, and the CloudWatch alarms made from them."""
