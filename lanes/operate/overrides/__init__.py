"""Cancel, reprioritise and hold waiting messages."""
