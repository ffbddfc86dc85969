"""Watch and check lanes; pause, resume and send."""
